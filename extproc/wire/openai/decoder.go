package openai

import (
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
)

// Limits in bytes on what a provider may send: one event of a stream, and a whole JSON answer.
const (
	maxEvent = 16 << 20
	maxBody  = 64 << 20
)

// Decoder reads a provider's answer: a stream of chat.completion.chunk events, one chat.completion, or an error. It
// implements provider.Decoder.
//
// Blocks are numbered in the order in which they begin. Several tool calls may be open at once: they are closed
// together, right before Stop.
type Decoder struct {
	status   int
	header   header.List
	sse      bool // the body is an event stream
	passes   bool // the client reads this format, and the body has the form it asked for: its bytes may pass
	frames   sse.Scanner
	body     []byte
	overflow bool

	events  []chat.Event
	arena   []byte // texts that had escapes
	id      string // the answer's
	began   bool   // an answer was recognised
	stopped bool   // a choice has its finish_reason
	over    bool   // End or Error was said
	blocks  int    // content blocks so far
	choices []choice
}

// choice is the state of one of the answer's choices.
type choice struct {
	open  chat.EventKind // Text, Thought or Refusal while such a block is open; Start when none is
	block int            // its index
	tools []call
}

// call is a tool call in progress.
type call struct {
	index   int64 // as the provider numbers it
	id      string
	block   int
	stopped bool
}

// NewDecoder reads the answer to a request made with EncodeRequest. Whether the body is a stream is told by its content
// type, and by the request when there is none.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	d := &Decoder{status: status, header: h, sse: req.Stream, frames: sse.Scanner{Max: maxEvent}}
	switch media, _, _ := strings.Cut(h.Get("content-type"), ";"); strings.ToLower(strings.TrimSpace(media)) {
	case "text/event-stream":
		d.sse = true
	case "application/json":
		d.sse = false
	}
	d.sse = d.sse && d.succeeded()
	d.passes = d.sse == req.Stream && req.Dialect == chat.OpenAI
	return d
}

func (d *Decoder) succeeded() bool { return d.status >= 200 && d.status < 300 }

// Decode reads the next piece of the body.
func (d *Decoder) Decode(chunk []byte, end bool) []chat.Event {
	d.events, d.arena = d.events[:0], d.arena[:0]
	switch {
	case d.over:
	case d.sse:
		d.stream(d.frames.Next(chunk))
		if end {
			d.stream(terminated(d.frames.End()))
			d.close()
		}
	default:
		d.gather(chunk)
		if end {
			d.whole()
		}
	}
	return d.events
}

// terminated completes the frame that a stream ended in, so that what is written after it is not read as a part of it.
func terminated(frames []sse.Frame) []sse.Frame {
	for i := range frames {
		f := &frames[i]
		n := len(f.Raw)
		if n == 0 {
			continue
		}
		f.Raw = append(f.Raw[:n:n], '\n')
		if last := f.Raw[n-1]; last != '\n' && last != '\r' {
			f.Raw = append(f.Raw, '\n')
		}
	}
	return frames
}

func (d *Decoder) stream(frames []sse.Frame) {
	for i := range frames {
		if d.over {
			return
		}
		d.frame(&frames[i])
	}
}

// frame reads one SSE event. The first of the events it means carries its bytes.
func (d *Decoder) frame(f *sse.Frame) {
	first := len(d.events)
	var model chat.Span
	var usageChunk bool
	switch {
	case f.TooLong:
		return // its bytes are lost; the stream goes on
	case string(f.Data) == "[DONE]":
		d.done()
	case f.Data != nil:
		model, usageChunk = d.chunk(f)
	}
	if len(d.events) == first {
		d.emit(chat.Event{Kind: chat.Other})
	}
	if !d.passes {
		return
	}
	e := &d.events[first]
	e.Raw, e.ModelSpan, e.UsageChunk = f.Raw, model, usageChunk
	for i := first + 1; i < len(d.events); i++ {
		d.events[i].Tail = true
	}
}

func (d *Decoder) emit(ev chat.Event) { d.events = append(d.events, ev) }

// done is the terminator. A provider that sends it and nothing else has not answered.
func (d *Decoder) done() {
	if !d.began {
		d.fail("empty", "the provider ended its stream without an answer")
		return
	}
	d.over = true
	d.emit(chat.Event{Kind: chat.End})
}

// close is the end of the body. Some servers leave out the terminator; an answer with a finish_reason is complete.
func (d *Decoder) close() {
	switch {
	case d.over:
	case d.stopped:
		d.done()
	default:
		d.fail("truncated", "the provider's stream ended before its answer was complete")
	}
}

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
	d.completion(v)
}
