package wire

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// AppendRenamed appends a provider's bytes with the model's name replaced by model; "" keeps the provider's. at is the span of the name in
// raw; it may be empty.
func AppendRenamed(dst, raw []byte, at chat.Span, model string) []byte {
	if model == "" {
		return append(dst, raw...)
	}
	return AppendQuoted(dst, raw, at, jsonx.AppendString(nil, model))
}

// AppendQuoted is AppendRenamed with the name as a JSON string; nil keeps the provider's.
func AppendQuoted(dst, raw []byte, at chat.Span, quoted []byte) []byte {
	if quoted == nil || at.End <= at.Start || at.End > len(raw) || bytes.Equal(raw[at.Start:at.End], quoted) {
		return append(dst, raw...)
	}
	dst = append(append(dst, raw[:at.Start]...), quoted...)
	return append(dst, raw[at.End:]...)
}

// ModelSpan returns the span of the model's name in a text. model is that member of a JSON object that starts at offset in the text. The
// span is empty if the object does not name a model, or if offset is negative because the object is not in the text verbatim.
func ModelSpan(model jsonx.Value, offset int) chat.Span {
	if model.Kind() != jsonx.String || offset < 0 {
		return chat.Span{}
	}
	at := offset + model.At
	return chat.Span{Start: at, End: at + len(model.Raw)}
}

// QuotedModel returns the client's name of the model as a JSON string for AppendQuoted; nil to keep the provider's.
func (o *Options) QuotedModel() []byte {
	if o.Model == "" {
		return nil
	}
	return jsonx.AppendString(nil, o.Model)
}
