package gemini

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

var _ wire.Continuer = Dialect{}

// Continue appends the first candidate's content, and a content with the results.
func (Dialect) Continue(req *chat.Request, answer []byte, results []wire.CallResult) (*chat.Request, error) {
	v, err := wire.ParseTurn(answer)
	if err != nil {
		return nil, err
	}
	return wire.ContinueWith(req, func(r *wire.Reshape) error {
		var content jsonx.Value
		for _, c := range v.Get("candidates").Each {
			content = c.Get("content")
			break
		}
		h := shaper{r}
		contents, _ := h.top("contents")
		if content.Kind() != jsonx.Object || wire.IsEmpty(contents) {
			return wire.ErrNoTurn
		}
		b := append(append([]byte(nil), content.Raw...), `,{"role":"user","parts":[`...)
		for i := range results {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendResult(b, &results[i])
		}
		b = append(b, `]}`...)
		if contents.Kind() == jsonx.Array {
			h.AppendElement(contents, b)
			return nil
		}
		h.Insert(contents.At, []byte{'['}) // one content
		h.AppendAfter(contents, append(append([]byte{','}, b...), ']'))
		return nil
	})
}

// appendResult appends the part of a result. Calls of some providers have no ids.
func appendResult(dst []byte, res *wire.CallResult) []byte {
	dst = append(dst, `{"functionResponse":{`...)
	if res.ID != "" {
		dst = append(jsonx.AppendString(append(dst, `"id":`...), res.ID), ',')
	}
	dst = jsonx.AppendString(append(dst, `"name":`...), res.Name)
	key := "output"
	if res.IsError {
		key = "error"
	}
	dst = append(append(append(dst, `,"response":{"`...), key...), `":`...)
	return append(jsonx.AppendString(dst, res.Text), "}}}"...)
}
