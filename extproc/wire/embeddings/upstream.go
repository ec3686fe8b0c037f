package embeddings

import (
	"cmp"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/answer"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// At reports whether a provider of OpenAI's format makes embeddings by a model: it is known to, or nobody said what the model can do.
func At(to *policy.Resolution) bool { return to.May(policy.Embeddings) }

// NewCall writes one attempt at a provider that has the endpoint.
func NewCall(buf []byte, req *chat.Request, to *policy.Resolution, at provider.Endpoint) *provider.Call {
	return openai.PassOn(buf, req, at, "/embeddings", cmp.Or(to.Upstream, string(to.Model)))
}

// Decoder reads the answer of such a call: one JSON text, or an error. It implements provider.Decoder.
type Decoder struct {
	answer.Reader
}

var _ provider.Decoder = (*Decoder)(nil)

// NewDecoder reads the answer to a request made with NewCall.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	d := &Decoder{answer.NewReader(answer.Format{Dialect: chat.Embeddings}, req, status, h)}
	d.Stream, d.Passes = false, true // there are no streams of embeddings, whatever the answer says of itself
	return d
}

// Decode reads the next piece of the body.
func (d *Decoder) Decode(chunk []byte, end bool) []chat.Event {
	for range d.Take(chunk, end) {
	}
	if !d.Over && end {
		d.whole()
	}
	return d.Events
}

// whole reads a complete answer. One without data is no answer, whatever its status says.
func (d *Decoder) whole() {
	v, err := d.JSON()
	if err != nil {
		d.FailWith(err)
		return
	}
	var model, data, usage, fault jsonx.Value
	for key, m := range v.Members { // once: the vectors are long
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
	var at chat.Span
	name, named := model.Str()
	if named {
		at = chat.Span{Start: model.At, End: model.At + len(model.Raw)}
	}
	d.Emit(chat.Event{Kind: chat.Start, Model: name})
	if usage.Kind() == jsonx.Object {
		u := openai.ReadUsage(usage)
		if u.TotalInput() == 0 { // some say the total alone
			u.Input = openai.TotalTokens(usage)
		}
		u.Final = true
		d.Emit(chat.Event{Kind: chat.UsageInfo, Usage: u, Text: usage.Raw})
	}
	d.End()
	d.Carry(0, 0, d.Body, at)
}
