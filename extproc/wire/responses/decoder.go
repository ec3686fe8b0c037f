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
	// maxEvent is the maximum size of a stream's event in bytes: the last event contains the whole answer.
	maxEvent = 64 << 20

	// maxBlocks is the maximum number of blocks in an answer: each piece of a block is searched for linearly among them.
	maxBlocks = 4096
)

// Decoder reads a provider's answer: a stream of events, one response, a count of tokens, or an error. It implements
// provider.Decoder.
type Decoder struct {
	answer.Reader
	counts     bool              // the answer is a count of tokens
	translates bool              // the client speaks another dialect
	ownNames   map[string]string // the client's tool names, by those that were sent

	empty     answer.Arguments // of the frame or the body that is read
	began     bool             // the Start event was emitted
	tier      bool             // the service tier was emitted
	called    bool             // a tool was called
	items     map[int64]*outputItem
	points    int // code points of text so far; counted for other dialects only
	citations int // citations so far
}

// NewDecoder returns a decoder of the answer to req. The content type determines whether the body is a stream; without one, the request
// does.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	f := answer.Format{Dialect: chat.Responses, MaxEvent: maxEvent}
	return &Decoder{
		Reader: answer.NewReader(f, req, status, h), counts: req.Op == chat.CountTokens, items: map[int64]*outputItem{},
		translates: req.Dialect != chat.Responses, ownNames: wire.OwnNames(req, chat.Responses),
	}
}

// Decode reads the next piece of the body. It implements provider.Decoder.
func (d *Decoder) Decode(chunk []byte, end bool) []chat.Event {
	for f := range d.Take(chunk, end) {
		d.frame(f)
	}
	switch {
	case d.Ended || !end:
	case d.Stream:
		d.Fail("truncated", "the provider's stream ended before its answer was complete")
	default:
		d.whole()
	}
	return d.Events
}

// frame reads one SSE event. One of its chat events carries its bytes: the first, or the End.
func (d *Decoder) frame(f *sse.Frame) {
	first := len(d.Events)
	var model chat.Span
	switch {
	case f.TooLong: // its bytes are dropped; the stream continues
		d.Emit(chat.Event{Kind: chat.Extra, ID: oversized})
		return
	case f.Data != nil:
		model = d.data(f)
	}
	raw, model := d.empty.Fill(f.Raw, f.DataAt, model)
	d.empty = answer.Arguments{}
	n := len(d.Events)
	switch {
	case n == first:
		d.Emit(chat.Event{Kind: chat.Other})
	case d.Events[n-1].Kind == chat.Error: // of a failed answer, only the usage counts
		return
	}
	carrier := first
	if d.Ended {
		carrier = len(d.Events) - 1
	}
	d.AttachBytes(first, carrier, raw, model)
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
		body, model := d.empty.Fill(d.Body, 0, wire.ModelSpan(v.Get("model"), 0))
		d.AttachBytes(0, last, body, model)
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
