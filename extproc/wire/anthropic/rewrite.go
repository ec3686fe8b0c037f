package anthropic

import (
	"bytes"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

var _ wire.Rewriter = Dialect{}

// Rewrite writes a conversation without tools into the system prompt and the messages of a Messages request.
func (Dialect) Rewrite(req *chat.Request, c *chat.Conversation) (*chat.Request, []string, error) {
	w := writer{Writer: wire.Writer{Conv: c}, req: req}
	var err error
	if w.turns, err = w.alternate(); err != nil {
		return nil, nil, err
	}
	e := req.Edit.Clone()
	w.messages()
	e.Set(&req.Doc, "messages", slices.Clone(w.Dst))
	w.Dst = w.Dst[:0]
	w.system()
	e.Delete(&req.Doc, "system")
	if len(w.Dst) > 0 {
		e.Set(&req.Doc, "system", bytes.TrimPrefix(w.Dst, []byte(`,"system":`)))
	}
	if w.Refused != nil {
		return nil, nil, w.Refused
	}
	e.Delete(&req.Doc, "tools")
	e.Delete(&req.Doc, "tool_choice")
	rewritten, err := wire.Rewritten(req, c, &e)
	return rewritten, wire.DegradedWithin(req, c, w.Degraded), err
}
