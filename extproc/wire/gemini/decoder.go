package gemini

import (
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
)

// Limits on what a provider may send, in bytes: one event of a stream, and a whole JSON answer.
const (
	maxEvent = 16 << 20
	maxBody  = 64 << 20

	// maxCalls is how many calls an answer may have: those that are open are looked up among each other.
	maxCalls = 1024
)

// Decoder reads a provider's answer: a stream of chunks, one answer, an array of chunks, or an error. It implements
// provider.Decoder.
//
// A stream has no terminator: it is complete when its body ends and every candidate has said why it stopped.
type Decoder struct {
	status   int
	header   header.List
	sse      bool // the body is an event stream
	passes   bool // the client reads this format, and the body has the form it asked for: its bytes may pass
	same     bool // the client reads this format
	count    bool // the answer is a count of tokens
	wanted   int  // candidates that were asked for
	frames   sse.Scanner
	body     []byte
	overflow bool

	events  []chat.Event
	arena   []byte // texts that had escapes, and signatures
	id      string // the answer's
	began   bool
	over    bool // End or Error was said
	blocked bool // the prompt was refused: there are no candidates
	blocks  int  // content blocks so far
	calls   int
	choices []choice
	unknown bool // an unknown member was told of
}

var _ provider.Decoder = (*Decoder)(nil)

// choice is the state of one candidate.
type choice struct {
	open    chat.EventKind // Text or Thought while such a block is open; Start when none is
	block   int            // its index
	partial *partialCall   // whose arguments come in pieces
	called  bool
	spoke   bool
	stopped bool
}

// NewDecoder reads the answer to a request made with EncodeRequest. Whether the body is a stream is told by its content type,
// and by the request when there is none.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	d := &Decoder{
		status: status, header: h, sse: req.Stream, frames: sse.Scanner{Max: maxEvent}, same: req.Dialect == chat.Gemini,
		count: req.Op == chat.CountTokens, wanted: max(1, req.Choices),
	}
	switch media, _, _ := strings.Cut(h.Get("content-type"), ";"); strings.ToLower(strings.TrimSpace(media)) {
	case "text/event-stream":
		d.sse = true
	case "application/json":
		d.sse = false
	}
	d.sse = d.sse && d.succeeded()
	d.passes = d.sse == req.Stream && d.same
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
		if v, err := jsonx.Parse(frames[i].Data); last && (err != nil || v.Kind() != jsonx.Object) {
			return
		}
		d.frame(&frames[i])
	}
}

// frame reads one event. The first of the events it means carries its bytes.
func (d *Decoder) frame(f *sse.Frame) {
	if f.TooLong { // its bytes are lost; the stream goes on
		d.emit(chat.Event{Kind: chat.Extra, ID: oversized})
		return
	}
	first := len(d.events)
	var model chat.Span
	if f.Data != nil {
		v, err := jsonx.Parse(f.Data)
		if err != nil {
			d.emit(chat.Event{Kind: chat.Extra, ID: unreadable})
		} else if model = d.chunk(v); f.DataAt >= 0 && model.End > 0 {
			model.Start, model.End = model.Start+f.DataAt, model.End+f.DataAt
		} else {
			model = chat.Span{}
		}
	}
	d.own(first, f.Raw, model)
}

// own gives the events from the n-th on the bytes that they came from. What came with an error is no answer.
func (d *Decoder) own(first int, raw []byte, model chat.Span) {
	switch n := len(d.events); {
	case n == first:
		d.emit(chat.Event{Kind: chat.Other})
	case d.events[n-1].Kind == chat.Error:
		d.events = append(d.events[:first], d.events[n-1])
	}
	if !d.passes {
		return
	}
	d.events[first].Raw, d.events[first].ModelSpan = raw, model
	for i := first + 1; i < len(d.events); i++ {
		d.events[i].Tail = true
	}
}

func (d *Decoder) emit(ev chat.Event) { d.events = append(d.events, ev) }

// close is the end of a stream's body.
func (d *Decoder) close() {
	switch {
	case d.over:
	case !d.began:
		d.fail("truncated", "the provider ended its stream without an answer")
	case d.blocked || d.stopped():
		d.over = true
		d.emit(chat.Event{Kind: chat.End})
	default:
		d.fail("truncated", "the provider's stream ended before its answer was complete")
	}
}

// stopped reports whether as many candidates as were asked for, and all that began, have said why they stopped.
func (d *Decoder) stopped() bool {
	for i := range d.choices {
		if !d.choices[i].stopped {
			return false
		}
	}
	return len(d.choices) >= d.wanted
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
		d.failWith(refusal(errbody.Parse(d.status, d.header, d.body)))
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
	if d.count {
		d.emit(chat.Event{Kind: chat.End})
		d.own(0, d.body, chat.Span{})
		return
	}
	if v.Kind() == jsonx.Array {
		d.chunks(v)
		return
	}
	model := d.chunk(v)
	if d.over {
		return
	}
	d.closeWhole()
	d.own(0, d.body, model)
}

// chunks reads a stream that came as an array.
func (d *Decoder) chunks(v jsonx.Value) {
	for _, e := range v.Each {
		if d.chunk(e); d.over {
			return
		}
	}
	d.passes = false
	d.closeWhole()
}

// closeWhole is the end of an answer that came in one piece: a candidate that does not say why it stopped just ended.
func (d *Decoder) closeWhole() {
	if !d.began || !d.blocked && len(d.choices) == 0 {
		d.fail("empty", "the provider answered without a candidate")
		return
	}
	for i := range d.choices {
		if !d.choices[i].stopped {
			d.stop(&d.choices[i], i, "STOP", jsonx.Value{})
		}
	}
	d.over = true
	d.emit(chat.Event{Kind: chat.End})
}

// refusal gives an error the status that others give it: this API says 400 for a bad credential, which is not the caller's mistake.
func refusal(e *chat.ProviderError) *chat.ProviderError {
	if e.Status == http.StatusBadRequest && strings.Contains(e.Message, "API key") {
		e.Status = http.StatusUnauthorized
	}
	return e
}
