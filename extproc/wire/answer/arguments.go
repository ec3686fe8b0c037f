package answer

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Arguments replaces the arguments of calls that have none: clients parse them as JSON. The zero value replaces nothing.
type Arguments struct{ empty []jsonx.Value }

// Add notes the arguments of a complete call if they are empty. A call without the member is not changed.
func (a *Arguments) Add(args jsonx.Value) {
	if args.Exists() && (args.IsNull() || args.Equal("")) {
		a.empty = append(a.empty, args)
	}
}

// Fill returns bytes with an empty object in place of the noted arguments, and the new position of the model's name. The values are at offset
// in the bytes, which are not changed; a negative offset is unknown, and nothing is replaced.
func (a *Arguments) Fill(raw []byte, offset int, model chat.Span) ([]byte, chat.Span) {
	if len(a.empty) == 0 || offset < 0 {
		return raw, model
	}
	const object = `"{}"`
	var b bytes.Buffer
	at, moved := 0, 0
	for _, v := range a.empty {
		start := offset + v.At
		b.Write(raw[at:start])
		b.WriteString(object)
		at = start + len(v.Raw)
		if at <= model.Start {
			moved += len(object) - len(v.Raw)
		}
	}
	b.Write(raw[at:])
	return b.Bytes(), chat.Span{Start: model.Start + moved, End: model.End + moved}
}
