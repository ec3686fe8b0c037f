package embeddings

import (
	"cmp"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/answer"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Serves reports whether a provider of OpenAI's format makes embeddings with a model: it is known to, or nothing is known about the model.
func Serves(to *policy.Resolution) bool { return to.May(policy.Embeddings) }

// NewCall writes one attempt at a provider that has the endpoint.
func NewCall(buf []byte, req *chat.Request, to *policy.Resolution, at provider.Endpoint) *provider.Call {
	return openai.Passthrough(buf, req, at, "/embeddings", cmp.Or(to.Upstream, string(to.Model)))
}

// Decoder reads the answer to such a call: one JSON object, or an error. It implements provider.Decoder.
type Decoder struct {
	answer.Reader
}

var _ provider.Decoder = (*Decoder)(nil)

// NewDecoder returns a decoder of the answer to a request made with NewCall.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	d := &Decoder{answer.NewReader(answer.Format{Dialect: chat.Embeddings}, req, status, h)}
	d.Stream, d.Passes = false, true // embeddings are not streamed, whatever the content type
	return d
}

// Decode reads the next piece of the body. It implements provider.Decoder.
func (d *Decoder) Decode(chunk []byte, end bool) []chat.Event {
	for range d.Take(chunk, end) {
	}
	if !d.Ended && end {
		d.whole()
	}
	return d.Events
}

// whole reads a complete answer. One without data is an error, whatever its status.
func (d *Decoder) whole() {
	v, err := d.JSON()
	if err != nil {
		d.FailWith(err)
		return
	}
	var model, data, usage, fault jsonx.Value
	for key, m := range v.Members { // one pass: the vectors are long
		switch string(key) {
		case "model":
			model = m
		case "data":
			data = m
		case "usage":
			usage = m
		case "error":
			fault = m
		}
	}
	switch {
	case !fault.IsNull():
		d.FailWith(errbody.InStream(v))
		return
	case data.Kind() != jsonx.Array:
		d.Fail("empty", "the provider's answer has no data")
		return
	}
	d.events(model, usage)
}

func (d *Decoder) events(model, usage jsonx.Value) {
	name, _ := model.Str()
	d.Emit(chat.Event{Kind: chat.Start, Model: name})
	if usage.Kind() == jsonx.Object {
		u := chatcompletion.ReadInputUsage(usage)
		u.Final = true
		d.Emit(chat.Event{Kind: chat.UsageInfo, Usage: u, Text: usage.Raw})
	}
	d.End()
	d.AttachBytes(0, 0, d.Body, wire.ModelSpan(model, 0))
}
