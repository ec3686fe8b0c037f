package extproc

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/toolcall"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
)

// Models that call tools in their text are told of the tools in text, and their answers are read for calls.

// toolsInPrompt names tools that stand in the prompt.
const toolsInPrompt = "tools->prompt"

// inWords is a request as a model that calls tools in its text is sent it, and what is lost thereby. For other models, and where no
// tools are in play, it is the client's own. The caller holds encodeMu.
func (x *exchange) inWords(as *chat.Request, to policy.Resolution, at chat.Dialect) (req *chat.Request, lost []string, err error) {
	f := toolcall.Format(to.ToolFormat)
	if !f.Known() || x.isTokenCount() {
		return as, nil, nil
	}
	c, err := as.Conversation()
	if err != nil {
		return nil, nil, err
	}
	text, lost := toolcall.Write(c, f)
	if text == c {
		return as, nil, nil
	}
	if len(toolcall.Offered(c)) > 0 {
		lost = append([]string{toolsInPrompt}, lost...)
	}
	if r, ok := x.rt.Dialects[x.Request.Dialect].(wire.Rewriter); ok && at == x.Request.Dialect {
		req, more, err := r.Rewrite(as, text)
		return req, append(lost, more...), err
	}
	again := *as
	again.Conv = text
	return &again, lost, nil
}

// stages are what is read into the words of an answer, in order. The caller holds encodeMu.
func (x *exchange) stages(t *try, status int) (list []stage) {
	if status/100 != 2 || x.isTokenCount() || x.Request.Op == chat.Embed || x.spokenTo(&t.to) == chat.Completions {
		return nil
	}
	calls := x.callsIn(t.to)
	if thoughts := x.thoughtsIn(t.to, calls != nil); thoughts != nil {
		list = append(list, thoughts)
	}
	if calls != nil {
		list = append(list, calls)
	}
	return readsForm(list, t.plan)
}

// callsIn reads the calls in a model's text; nil where none can be. The caller holds encodeMu.
func (x *exchange) callsIn(to policy.Resolution) *toolcall.Reader {
	f := toolcall.Format(to.ToolFormat)
	if !f.Known() || x.Request.Conv == nil {
		return nil
	}
	offered := toolcall.Offered(x.Request.Conv)
	if len(offered) == 0 {
		return nil
	}
	return toolcall.NewReader(f, offered, "call_"+strings.TrimPrefix(x.ID, "req_")+"_")
}

// named adds names of losses to others, each once.
func named(names, more []string) []string {
	names = slices.Clip(names)
	for _, n := range more {
		names = wire.Named(names, n)
	}
	return names
}
