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

// Limits on what a provider may send, in bytes: one event of a stream, and a whole JSON answer.
const (
	maxEvent = 16 << 20
	maxBody  = 64 << 20

	// maxCalls is how many tool calls a choice may have: each piece of one is looked up among them.
	maxCalls = 1024
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
	arena   []byte            // texts that had escapes
	id      string            // the answer's
	began   bool              // an answer was recognised
	over    bool              // End or Error was said
	blocks  int               // content blocks so far
	wanted  int               // choices that the request asked for
	names   map[string]string // of tools whose names were cut, as the client knows them
	choices []choice
	said    once
}

// once are the things that an answer says in every chunk, or in several, and that are told once.
type once struct {
	tier, fingerprint, provider, reasoning, usageDetails, unknown bool
}

// choice is the state of one of the answer's choices.
type choice struct {
	open    chat.EventKind // Text, Thought or Refusal while such a block is open; Start when none is
	block   int            // its index
	thought reasoned
	tools   []call
	spoke   bool // some content came
	stopped bool // it has its finish_reason
}

// reasoned is what is known of a choice's reasoning.
type reasoned struct {
	detail   int64  // the open block's index in reasoning_details, -1 if it has none
	signed   bool   // the open block has its signature
	plain    bool   // some reasoning came without reasoning_details
	format   string // of the last object of reasoning_details
	formatOf int64  // and its index
}

// call is a tool call in progress.
type call struct {
	index   int64 // as the provider numbers it
	id      string
	block   int
	args    bool // some came
	stopped bool
}

// usualEvents is how many events a plain JSON answer has, or a few chunks of a stream.
const usualEvents = 8

// NewDecoder reads the answer to a request made with EncodeRequest. Whether the body is a stream is told by its content
// type, and by the request when there is none.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	d := &Decoder{
		status: status, header: h, sse: req.Stream, frames: sse.Scanner{Max: maxEvent}, wanted: max(1, req.Choices), names: longNames(req),
		events: make([]chat.Event, 0, usualEvents),
	}
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
		d.stream(d.frames.Next(chunk), false)
		if end {
			d.stream(terminated(d.frames.End()), true)
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

// stream reads frames. The last of a stream may lack its end; then it counts only if it is a whole object nevertheless.
func (d *Decoder) stream(frames []sse.Frame, last bool) {
	for i := range frames {
		if d.over {
			return
		}
		if last && !isWhole(frames[i].Data) {
			return
		}
		d.frame(&frames[i])
	}
}

// isWhole reports whether data that may have been cut off was not.
func isWhole(data []byte) bool {
	if string(data) == terminator {
		return true
	}
	v, err := jsonx.Parse(data)
	return err == nil && v.Kind() == jsonx.Object
}

// terminator is the data of a stream's last frame.
const terminator = "[DONE]"

// frame reads one SSE event. The first of the events it means carries its bytes.
func (d *Decoder) frame(f *sse.Frame) {
	first := len(d.events)
	var model chat.Span
	var usageChunk bool
	switch {
	case f.TooLong: // its bytes are lost; the stream goes on
		d.emit(chat.Event{Kind: chat.Extra, ID: oversized})
		return
	case string(f.Data) == terminator:
		d.done()
	case f.Data != nil:
		model, usageChunk = d.chunk(f)
	}
	switch n := len(d.events); {
	case n == first:
		d.emit(chat.Event{Kind: chat.Other})
	case d.events[n-1].Kind == chat.Error: // what came with an error is no answer
		d.events = append(d.events[:first], d.events[n-1])
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

// close is the end of the body. Some servers leave out the terminator; an answer whose choices all have their
// finish_reason is complete.
func (d *Decoder) close() {
	switch {
	case d.over:
	case d.stopped() && len(d.choices) >= d.wanted:
		d.done()
	default:
		d.fail("truncated", "the provider's stream ended before its answer was complete")
	}
}

// stopped reports whether every choice so far has its finish_reason.
func (d *Decoder) stopped() bool {
	for i := range d.choices {
		if !d.choices[i].stopped {
			return false
		}
	}
	return len(d.choices) > 0
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
