package responses

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/answer"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
)

const (
	// maxEvent is the size in bytes of the longest event of a stream: the last one holds the whole answer.
	maxEvent = 64 << 20

	// maxBlocks is how many blocks an answer may have: each piece of one is looked up among them.
	maxBlocks = 4096
)

// Decoder reads a provider's answer: a stream of events, one response, a count of tokens, or an error. It implements
// provider.Decoder.
type Decoder struct {
	answer.Reader
	counts  bool              // the answer is a count of tokens
	crosses bool              // the client reads another format
	names   map[string]string // the tools whose names were cut, by what they are called here

	began  bool // a response was recognised
	tier   bool // the service tier was told
	called bool // a tool was called
	items  map[int64]*outputItem
	blocks int // content blocks so far
	points int // code points of text so far, where they are counted
	cited  int // citations so far
}

// NewDecoder reads the answer to a request made with EncodeRequest. Whether the body is a stream is told by its content
// type, and by the request when there is none.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	f := answer.Format{Dialect: chat.Responses, MaxEvent: maxEvent}
	return &Decoder{
		Reader: answer.NewReader(f, req, status, h), counts: req.Op == chat.CountTokens, items: map[int64]*outputItem{},
		crosses: req.Dialect != chat.Responses, names: wire.LongNames(req, chat.Responses),
	}
}

// Decode reads the next piece of the body.
func (d *Decoder) Decode(chunk []byte, end bool) []chat.Event {
	for f := range d.Take(chunk, end) {
		d.frame(f)
	}
	switch {
	case d.Over || !end:
	case d.Stream:
		d.Fail("truncated", "the provider's stream ended before its answer was complete")
	default:
		d.whole()
	}
	return d.Events
}

// frame reads one SSE event. One of the events it means carries its bytes: the first, or the End.
func (d *Decoder) frame(f *sse.Frame) {
	first := len(d.Events)
	var model chat.Span
	switch {
	case f.TooLong: // its bytes are lost; the stream goes on
		d.Emit(chat.Event{Kind: chat.Extra, ID: oversized})
		return
	case f.Data != nil:
		model = d.data(f)
	}
	n := len(d.Events)
	switch {
	case n == first:
		d.Emit(chat.Event{Kind: chat.Other})
	case d.Events[n-1].Kind == chat.Error: // what came with an error is no answer, but for what it took
		return
	}
	carrier := first
	if d.Over {
		carrier = len(d.Events) - 1
	}
	d.Carry(first, carrier, f.Raw, model)
}

// whole reads a complete JSON answer.
func (d *Decoder) whole() {
	v, err := d.JSON()
	if err != nil {
		d.FailWith(err)
		return
	}
	if d.counts {
		d.count(v)
	} else {
		d.response(v)
	}
	if last := len(d.Events) - 1; d.Passes && d.Events[last].Kind == chat.End {
		d.Carry(0, last, d.Body, span(v.Get("model"), 0))
	}
}

// count reads a count of tokens.
func (d *Decoder) count(v jsonx.Value) {
	if _, ok := v.Get("input_tokens").Int(); !ok {
		d.Fail("empty", "the provider's answer has no count")
		return
	}
	d.End()
}

// span is where a text names the model that stands at offset in it.
func span(model jsonx.Value, offset int) chat.Span {
	if model.Kind() != jsonx.String || offset < 0 {
		return chat.Span{}
	}
	return chat.Span{Start: offset + model.At, End: offset + model.At + len(model.Raw)}
}
