package gemini

import (
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/answer"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
)

const (
	// maxEvent is the maximum size in bytes of an event of a stream.
	maxEvent = 16 << 20

	// maxCalls is the maximum number of calls in an answer: each call is searched for linearly among the open ones.
	maxCalls = 1024
)

// Decoder reads a provider's answer: a stream of chunks, one answer, an array of chunks, or an error. It implements provider.Decoder.
//
// A stream has no terminator: it is complete when its body ends and every candidate has a finish reason.
type Decoder struct {
	answer.Reader
	sameDialect bool              // the client speaks this dialect
	count       bool              // the answer is a count of tokens
	requested   int               // number of requested candidates
	ownNames    map[string]string // the client's tool names, by those that were sent
	id          string            // the answer's
	began       bool
	blocked     bool // the prompt was refused: there are no candidates
	calls       int
	choices     []choice
	unknown     bool // an unknown member was emitted

	searches int64 // web searches for the answer
}

var _ provider.Decoder = (*Decoder)(nil)

// choice is the state of one candidate.
type choice struct {
	open    answer.Block
	partial *partialCall // a call whose arguments come in pieces
	called  bool
	stopped bool

	text    []byte                 // its text, for clients of other formats, because this format's ranges are in bytes
	emitted map[chat.Citation]bool // emitted citations: chunks may repeat them
}

// NewDecoder returns a decoder of the answer to req. The content type determines whether the body is a stream; without one, the request
// does.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	f := answer.Format{Dialect: chat.Gemini, MaxEvent: maxEvent}
	return &Decoder{
		Reader: answer.NewReader(f, req, status, h), sameDialect: req.Dialect == chat.Gemini,
		count: req.Op == chat.CountTokens, requested: max(1, req.Choices), ownNames: wire.OwnNames(req, chat.Gemini),
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
		d.close()
	default:
		d.whole()
	}
	return d.Events
}

// frame reads one SSE event. The first of its chat events carries its bytes.
func (d *Decoder) frame(f *sse.Frame) {
	if f.TooLong { // its bytes are dropped; the stream continues
		d.Emit(chat.Event{Kind: chat.Extra, ID: oversized})
		return
	}
	first := len(d.Events)
	var model chat.Span
	if f.Data != nil {
		v, err := d.Parse(f.Data)
		if err != nil {
			d.Emit(chat.Event{Kind: chat.Extra, ID: unreadable})
		} else if model = d.chunk(v); f.DataAt >= 0 && model.End > 0 {
			model.Start, model.End = model.Start+f.DataAt, model.End+f.DataAt
		} else {
			model = chat.Span{}
		}
	}
	d.AttachFrame(first, f.Raw, model)
}

// close handles the end of a stream's body.
func (d *Decoder) close() {
	switch {
	case !d.began:
		d.Fail("truncated", "the provider ended its stream without an answer")
	case d.blocked || d.stopped():
		d.End()
	default:
		d.Fail("truncated", "the provider's stream ended before its answer was complete")
	}
}

// stopped reports whether all candidates, and as many as requested, have a finish reason.
func (d *Decoder) stopped() bool {
	for i := range d.choices {
		if !d.choices[i].stopped {
			return false
		}
	}
	return len(d.choices) >= d.requested
}

// whole reads a complete JSON answer.
func (d *Decoder) whole() {
	v, err := d.JSON()
	if err != nil {
		d.FailWith(refusal(err))
		return
	}
	if d.count {
		d.Emit(chat.Event{Kind: chat.End})
		d.AttachFrame(0, d.Body, chat.Span{})
		return
	}
	if v.Kind() == jsonx.Array {
		d.chunks(v)
		return
	}
	model := d.chunk(v)
	if d.Ended {
		return
	}
	d.closeWhole()
	d.AttachFrame(0, d.Body, model)
}

// chunks reads a stream that was sent as an array.
func (d *Decoder) chunks(v jsonx.Value) {
	for _, e := range v.Each {
		if d.chunk(e); d.Ended {
			return
		}
	}
	d.Passes = false
	d.closeWhole()
}

// closeWhole handles the end of a JSON answer. A candidate without a finish reason counts as complete.
func (d *Decoder) closeWhole() {
	if !d.began || !d.blocked && len(d.choices) == 0 {
		d.Fail("empty", "the provider answered without a candidate")
		return
	}
	for i := range d.choices {
		if !d.choices[i].stopped {
			d.stop(&d.choices[i], i, "STOP")
		}
	}
	d.End()
}

// refusal corrects the status of an error: this API returns 400 for an invalid credential, which is not the client's error.
func refusal(e *chat.ProviderError) *chat.ProviderError {
	if e.Status == http.StatusBadRequest && strings.Contains(e.Message, "API key") {
		e.Status = http.StatusUnauthorized
	}
	return e
}
