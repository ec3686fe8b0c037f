package anthropic

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

var _ wire.Continuer = Dialect{}

// Continue appends the answer's content, in which signed thinking keeps its bytes (K-14), and a user message with the results.
func (Dialect) Continue(req *chat.Request, answer []byte, results []wire.CallResult) (*chat.Request, error) {
	v, err := wire.ParseTurn(answer)
	if err != nil {
		return nil, err
	}
	return wire.ContinueWith(req, func(r *wire.Reshape) error {
		content, messages := v.Get("content"), r.Doc.Get("messages")
		if wire.IsEmpty(content) || messages.Kind() != jsonx.Array {
			return wire.ErrNoTurn
		}
		b := append([]byte(`{"role":"assistant","content":`), content.Raw...)
		b = append(b, `},{"role":"user","content":[`...)
		for i := range results {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsonx.AppendString(append(b, `{"type":"tool_result","tool_use_id":`...), results[i].ID)
			b = jsonx.AppendString(append(b, `,"content":`...), results[i].Text)
			if results[i].IsError {
				b = append(b, `,"is_error":true`...)
			}
			b = append(b, '}')
		}
		r.AppendElement(messages, append(b, `]}`...))
		return nil
	})
}
