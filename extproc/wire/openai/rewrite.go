package openai

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

var _ wire.Rewriter = Dialect{}

// Rewrite writes a conversation without tools into the messages of a Chat Completions request.
func (Dialect) Rewrite(req *chat.Request, c *chat.Conversation) (*chat.Request, []string, error) {
	w := writer{Writer: wire.Writer{Conv: c}, req: req, opts: RequestOptions{CacheControl: true, Video: true}, same: true}
	if err := w.messages(); err != nil {
		return nil, nil, err
	}
	if w.Refused != nil {
		return nil, nil, w.Refused
	}
	e := req.Edit.Clone()
	e.Set(&req.Doc, "messages", bytes.TrimPrefix(w.Dst, []byte(`,"messages":`)))
	for _, key := range [...]string{"tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"} {
		e.Delete(&req.Doc, key)
	}
	rewritten, err := wire.Rewritten(req, c, &e)
	return rewritten, wire.DegradedWithin(req, c, w.Degraded), err
}
