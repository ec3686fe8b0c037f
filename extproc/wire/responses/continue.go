package responses

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

var _ wire.Continuer = Dialect{}

// Continue appends the items of the answer, and an item for each result. Items lose their ids, which refer to stored items, because such a
// request stores nothing. Reasoning that is identified by its id alone is omitted.
func (Dialect) Continue(req *chat.Request, answer []byte, results []wire.CallResult) (*chat.Request, error) {
	v, err := wire.ParseTurn(answer)
	if err != nil {
		return nil, err
	}
	return wire.ContinueWith(req, func(r *wire.Reshape) error {
		var b []byte
		for _, item := range v.Get("output").Each {
			if raw := resent(item); raw != nil {
				b = append(append(b, raw...), ',')
			}
		}
		if len(b) == 0 || len(results) == 0 {
			return wire.ErrNoTurn
		}
		for i := range results {
			b = jsonx.AppendString(append(b, `{"type":"function_call_output","call_id":`...), results[i].ID)
			b = append(jsonx.AppendString(append(b, `,"output":`...), results[i].Text), "},"...)
		}
		b = b[:len(b)-1]
		switch input := r.Doc.Get("input"); input.Kind() {
		case jsonx.Array:
			r.AppendElement(input, b)
		case jsonx.String:
			r.Insert(input.At, []byte(`[{"role":"user","content":`))
			r.AppendAfter(input, append(append([]byte(`},`), b...), ']'))
		default:
			return wire.ErrNoTurn
		}
		return nil
	})
}

// resent returns an item of an answer in the form in which it is sent back; nil if it is omitted.
func resent(item jsonx.Value) []byte {
	id, _ := item.Get("id").Str()
	if item.Get("type").Equal("reasoning") {
		if strings.HasPrefix(id, chat.OwnReasoning) || !item.Get("encrypted_content").IsNull() {
			return item.Raw
		}
		return nil
	}
	return wire.WithMembers(item, func(key string) bool { return key == "id" })
}
