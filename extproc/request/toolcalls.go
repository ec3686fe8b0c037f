package request

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/toolcall"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
)

// toolsInPrompt is the name in X-Bardo-Degraded for tools that are rendered into the prompt.
const toolsInPrompt = "tools->prompt"

// WithToolsInPrompt renders the tools of a request into its prompt, for a model that calls tools in its text; lost lists the entries for
// X-Bardo-Degraded. For other models, and without tools, it returns the request unchanged. It may parse the conversation: not safe for concurrent use
// (attempt.Writer has a mutex for it).
func (v *View) WithToolsInPrompt(as *chat.Request, to policy.Resolution, at chat.Dialect) (req *chat.Request, degraded []string, err error) {
	f := toolcall.Format(to.ToolFormat)
	if !f.Known() || v.IsTokenCount() {
		return as, nil, nil
	}
	c, err := as.Conversation()
	if err != nil {
		return nil, nil, err
	}
	text, degraded := toolcall.Render(c, f)
	if text == c {
		return as, nil, nil
	}
	if len(toolcall.Offered(c)) > 0 {
		degraded = append([]string{toolsInPrompt}, degraded...)
	}
	if r, ok := v.Config.Dialects[v.Request.Dialect].(wire.Rewriter); ok && at == v.Request.Dialect {
		req, more, err := r.Rewrite(as, text)
		return req, append(degraded, more...), err
	}
	again := *as
	again.Conv = text
	return &again, degraded, nil
}

// CallReader parses tool calls in a model's text; nil for a model with native tool calls, and for a request without tools. It reads the parsed
// conversation: not safe for concurrent use with WithToolsInPrompt.
func (v *View) CallReader(to policy.Resolution) *toolcall.Reader {
	f := toolcall.Format(to.ToolFormat)
	if !f.Known() || v.Request.Conv == nil {
		return nil
	}
	offered := toolcall.Offered(v.Request.Conv)
	if len(offered) == 0 {
		return nil
	}
	return toolcall.NewReader(f, offered, "call_"+strings.TrimPrefix(v.ID, "req_")+"_")
}

// MergeDegraded appends more to names, without duplicates.
func MergeDegraded(names, more []string) []string {
	names = slices.Clip(names)
	for _, n := range more {
		names = wire.AppendDegraded(names, n)
	}
	return names
}
