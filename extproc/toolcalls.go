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

// inWords is the request as a model that calls tools in its text is sent it, and what is lost thereby. For other models, and where no
// tools are in play, it is the client's own. The caller holds encodeMu.
func (x *exchange) inWords(to policy.Resolution, at chat.Dialect) (req *chat.Request, lost []string, err error) {
	f := toolcall.Format(to.ToolFormat)
	if !f.Known() || x.isTokenCount() {
		return x.Request, nil, nil
	}
	c, err := x.Request.Conversation()
	if err != nil {
		return nil, nil, err
	}
	text, lost := toolcall.Write(c, f)
	if text == c {
		return x.Request, nil, nil
	}
	if r, ok := x.rt.Dialects[x.Request.Dialect].(wire.Rewriter); ok && at == x.Request.Dialect {
		req, more, err := r.Rewrite(x.Request, text)
		return req, append(lost, more...), err
	}
	again := *x.Request
	again.Conv = text
	return &again, lost, nil
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
