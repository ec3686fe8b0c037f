package extproc

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/toolcall"
	"bardo.money/gateway/policy"
)

// Models that think in their text are read for it, before their text is read for anything else.

// dialectOf is how the answers of a resolution show their reasoning.
func (x *exchange) dialectOf(to *policy.Resolution) reasoning.Dialect {
	p := x.rt.Providers[to.Provider]
	return reasoning.Of(p.Adapter.Name(), to, p.Adapter.Dialect(*to, p.Endpoint, x.Request.Dialect))
}

// thoughtsIn reads the thoughts in a model's text; nil where none can be. calls tells that calls are read in it, too. The caller holds
// encodeMu.
func (x *exchange) thoughtsIn(to policy.Resolution, calls bool) *reasoning.Reader {
	d := x.dialectOf(&to)
	if len(d.Tags) == 0 {
		return nil
	}
	o := reasoning.Options{Tags: d.Tags, Implicit: to.ImplicitOpen && !x.Request.ThinkingOff(), Choices: x.Request.Choices}
	o.Frames = x.Request.Dialect == chat.OpenAI
	if calls {
		o.Closers = toolcall.Format(to.ToolFormat).Closers()
	}
	return reasoning.NewReader(o)
}
