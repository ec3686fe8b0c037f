package responses

import (
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
)

// Limits on what a provider may send, in bytes: one event of a stream, and a whole JSON answer.
const (
	maxEvent = 64 << 20 // the last one holds the whole answer
	maxBody  = 64 << 20

	// maxBlocks is how many blocks an answer may have: each piece of one is looked up among them.
	maxBlocks = 4096
)

// Decoder reads a provider's answer: a stream of events, one response, a count of tokens, or an error. It implements
// provider.Decoder.
type Decoder struct {
	status   int
	header   header.List
	sse      bool // the body is an event stream
	passes   bool // the client reads this format, and the body has the form it asked for: its bytes may pass
	counts   bool // the answer is a count of tokens
	frames   sse.Scanner
	body     []byte
	overflow bool

	events []chat.Event
	arena  []byte // texts that had escapes
	began  bool   // a response was recognised
	over   bool   // End or Error was said
	tier   bool   // the service tier was told
	called bool   // a tool was called
	items  map[int64]*outputItem
	blocks int // content blocks so far
}

// usualEvents is how many events a plain JSON answer has, or a few frames of a stream.
const usualEvents = 8

// NewDecoder reads the answer to a request made with EncodeRequest. Whether the body is a stream is told by its content
// type, and by the request when there is none.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	d := &Decoder{
		status: status, header: h, sse: req.Stream, counts: req.Op == chat.CountTokens, frames: sse.Scanner{Max: maxEvent},
		events: make([]chat.Event, 0, usualEvents), items: map[int64]*outputItem{},
	}
	switch media, _, _ := strings.Cut(h.Get("content-type"), ";"); strings.ToLower(strings.TrimSpace(media)) {
	case "text/event-stream":
		d.sse = true
	case "application/json":
		d.sse = false
	}
	d.sse = d.sse && d.succeeded()
	d.passes = d.sse == req.Stream && req.Dialect == chat.Responses
	return d
}

func (d *Decoder) succeeded() bool { return d.status >= 200 && d.status < 300 }

// Decode reads the next piece of the body.
func (d *Decoder) Decode(chunk []byte, end bool) []chat.Event {
	d.events, d.arena = d.events[:0], d.arena[:0]
	switch {
	case d.over:
	case d.sse:
		d.stream(d.frames.Next(chunk), false)
		if end {
			d.stream(d.frames.End(), true)
			if !d.over {
				d.fail("truncated", "the provider's stream ended before its answer was complete")
			}
		}
	default:
		d.gather(chunk)
		if end {
			d.whole()
		}
	}
	return d.events
}

// stream reads frames. The last of a stream may lack its end; then it counts only if it is a whole object nevertheless.
func (d *Decoder) stream(frames []sse.Frame, last bool) {
	for i := range frames {
		if d.over {
			return
		}
		f := &frames[i]
		if last {
			if v, err := jsonx.Parse(f.Data); err != nil || v.Kind() != jsonx.Object {
				return
			}
			f.Raw = terminated(f.Raw)
		}
		d.frame(f)
	}
}

// terminated completes a frame, so that what is written after it is not read as a part of it.
func terminated(raw []byte) []byte {
	n := len(raw)
	raw = append(raw[:n:n], '\n')
	if last := raw[n-1]; last != '\n' && last != '\r' {
		raw = append(raw, '\n')
	}
	return raw
}

// frame reads one SSE event. One of the events it means carries its bytes: the first, or the End.
func (d *Decoder) frame(f *sse.Frame) {
	first := len(d.events)
	var model chat.Span
	switch {
	case f.TooLong: // its bytes are lost; the stream goes on
		d.emit(chat.Event{Kind: chat.Extra, ID: oversized})
		return
	case f.Data != nil:
		model = d.data(f)
	}
	n := len(d.events)
	switch {
	case n == first:
		d.emit(chat.Event{Kind: chat.Other})
	case d.events[n-1].Kind == chat.Error: // what came with an error is no answer, but for what it took
		return
	}
	if !d.passes {
		return
	}
	carries := first
	if d.over {
		carries = len(d.events) - 1
	}
	for i := first; i < len(d.events); i++ {
		d.events[i].Tail = i != carries
	}
	d.events[carries].Raw, d.events[carries].ModelSpan = f.Raw, model
}

func (d *Decoder) emit(ev chat.Event) { d.events = append(d.events, ev) }

func (d *Decoder) fail(kind, message string) {
	d.failWith(&chat.ProviderError{Status: http.StatusBadGateway, Type: kind, Message: message})
}

func (d *Decoder) failWith(err *chat.ProviderError) {
	d.over = true
	d.emit(chat.Event{Kind: chat.Error, Err: err})
}

// gather keeps what a JSON answer's end will need.
func (d *Decoder) gather(chunk []byte) {
	limit := maxBody
	if !d.succeeded() {
		limit = errbody.MaxBody
	}
	if room := limit - len(d.body); len(chunk) > room {
		d.overflow = true
		chunk = chunk[:room]
	}
	d.body = append(d.body, chunk...)
}

// whole reads a complete JSON answer.
func (d *Decoder) whole() {
	if !d.succeeded() {
		d.failWith(errbody.Parse(d.status, d.header, d.body))
		return
	}
	if d.overflow {
		d.fail("too_large", "the provider's answer is too large")
		return
	}
	v, err := jsonx.Parse(d.body)
	if err != nil {
		d.fail("invalid_response", "the provider's answer is not valid JSON")
		return
	}
	if d.counts {
		d.count(v)
	} else {
		d.response(v)
	}
	if d.passes && d.events[len(d.events)-1].Kind == chat.End {
		for i := range d.events {
			d.events[i].Tail = true
		}
		last := &d.events[len(d.events)-1]
		last.Tail, last.Raw, last.ModelSpan = false, d.body, span(v.Get("model"), 0)
	}
}

// count reads a count of tokens.
func (d *Decoder) count(v jsonx.Value) {
	if _, ok := v.Get("input_tokens").Int(); !ok {
		d.fail("empty", "the provider's answer has no count")
		return
	}
	d.over = true
	d.emit(chat.Event{Kind: chat.End})
}

// span is where a text names the model that stands at offset in it.
func span(model jsonx.Value, offset int) chat.Span {
	if model.Kind() != jsonx.String || offset < 0 {
		return chat.Span{}
	}
	return chat.Span{Start: offset + model.At, End: offset + model.At + len(model.Raw)}
}
