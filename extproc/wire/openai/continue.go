package openai

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

var _ wire.Continuer = Dialect{}

// Continue appends the first choice's message, and a message for each result.
func (Dialect) Continue(req *chat.Request, answer []byte, results []wire.CallResult) (*chat.Request, error) {
	v, err := wire.ParseTurn(answer)
	if err != nil {
		return nil, err
	}
	return wire.ContinueWith(req, func(r *wire.Reshape) error {
		var message jsonx.Value
		for _, c := range v.Get("choices").Each {
			message = c.Get("message")
			break
		}
		messages := r.Doc.Get("messages")
		if message.Kind() != jsonx.Object || messages.Kind() != jsonx.Array {
			return wire.ErrNoTurn
		}
		b := append([]byte(nil), message.Raw...)
		for i := range results {
			b = jsonx.AppendString(append(b, `,{"role":"tool","tool_call_id":`...), results[i].ID)
			b = append(jsonx.AppendString(append(b, `,"content":`...), results[i].Text), '}')
		}
		r.AppendElement(messages, b)
		return nil
	})
}
