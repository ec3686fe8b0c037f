package message

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
)

// Limits in bytes of a provider's answer: one event of a stream, and a whole JSON answer.
const (
	maxEvent = 16 << 20
	maxBody  = 64 << 20
)

// The gateway's own error types.
const (
	truncated = "truncated"
	tooLarge  = "too_large"
)

const badGateway = 502

// NewDecoder returns a decoder of the answer to req from a provider that speaks this format. Status and headers are the provider's.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	d := &Decoder{status: status, header: h, stream: isStream(req, h)}
	d.scanner.Max = maxEvent
	d.answer.passes = d.stream == req.Stream && req.Dialect == chat.Anthropic
	d.answer.count = req.Op == chat.CountTokens
	d.answer.translates = req.Dialect != chat.Anthropic
	d.answer.ownNames = wire.OwnNames(req, chat.Anthropic)
	return d
}

// isStream reports whether the body is an event stream: by its content type, else by the request.
func isStream(req *chat.Request, h header.List) bool {
	media, _, _ := strings.Cut(h.Get("content-type"), ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "text/event-stream":
		return true
	case "application/json":
		return false
	}
	return req.Stream
}

// Decoder reads one answer. It implements provider.Decoder.
type Decoder struct {
	status  int
	header  header.List
	stream  bool
	scanner sse.Scanner
	body    []byte // of a JSON answer or an error
	answer  answer
}

// Decode reads the next piece of the answer; end marks the last one.
func (d *Decoder) Decode(chunk []byte, end bool) []chat.Event {
	a := &d.answer
	a.reset()
	switch {
	case a.done:
	case d.status/100 != 2:
		d.collectError(chunk, end)
	case d.stream:
		d.frames(d.scanner.Next(chunk), false)
		if end {
			d.frames(d.scanner.End(), true)
			a.failTruncated()
		}
	default:
		d.collectJSON(chunk, end)
	}
	return a.events
}

// collectError collects the body of an error, up to a limit.
func (d *Decoder) collectError(chunk []byte, end bool) {
	d.body = append(d.body, chunk[:min(len(chunk), errbody.MaxBody-len(d.body))]...)
	if end {
		d.answer.fail(errbody.Parse(d.status, d.header, d.body))
	}
}

// frames reads frames. The last one of a stream may be unterminated; it counts only if its data are a whole object.
func (d *Decoder) frames(frames []sse.Frame, last bool) {
	d.answer.events = slices.Grow(d.answer.events, len(frames)) // almost every frame is one event
	for i := range frames {
		if d.answer.done {
			return
		}
		if last {
			if v, err := jsonx.Parse(frames[i].Data); err != nil || v.Kind() != jsonx.Object {
				return
			}
			frames[i].Raw = terminate(frames[i].Raw)
		}
		d.answer.frame(&frames[i])
	}
}

// collectJSON collects a JSON answer, and reads it when it is complete. An answer in one piece is not copied.
func (d *Decoder) collectJSON(chunk []byte, end bool) {
	if len(d.body)+len(chunk) > maxBody {
		d.answer.fail(&chat.ProviderError{Status: badGateway, Type: tooLarge, Message: "the provider's answer is too large", Unusable: true})
		return
	}
	if end && len(d.body) == 0 {
		d.answer.body(chunk)
		return
	}
	d.body = append(d.body, chunk...)
	if end {
		d.answer.body(d.body)
	}
}

// answer is the state of an answer, and the events of the current chunk.
type answer struct {
	passes bool // events carry the provider's bytes: the client speaks this dialect, and requested this form
	count  bool // the answer is a count of tokens, not a message
	done   bool // the answer has ended or failed
	id     string

	events []chat.Event
	arena  []byte // unescaped text of the events
	parser jsonx.Parser

	open         openBlock
	usage        chat.Usage
	thought      int               // bytes of thinking so far
	tier         bool              // the service tier was emitted
	translates   bool              // the client speaks another dialect
	ownNames     map[string]string // the client's tool names, by those that were sent
	points       int               // code points of text so far; counted for other dialects only
	citations    int               // citations so far
	toolsEmitted bool              // the use of the provider's own tools was emitted
}

// openBlock is the content block that deltas belong to.
type openBlock struct {
	index     int
	kind      blockKind
	input     []byte // a tool's arguments in its start event; used if no deltas follow
	raw       []byte // of another block: its start
	extended  string // of another block: the member that deltas extend
	extension []byte // and the text of these deltas

	citations  []chat.Event // held for clients of other formats
	textBefore int          // code points of text before the block
}

type blockKind uint8

const (
	otherBlock blockKind = iota // none, or a block of this format only
	contentBlock
	toolBlock
)

func (a *answer) reset() {
	clear(a.events)
	a.events, a.arena = a.events[:0], a.arena[:0]
}

func (a *answer) add(ev chat.Event) { a.events = append(a.events, ev) }

// attachBytes attaches the provider's bytes to the events from index n: the first carries them, the others are its tail. Bytes without an
// event become an Other event.
func (a *answer) attachBytes(n int, raw []byte, model chat.Span) {
	if !a.passes {
		return
	}
	if len(a.events) == n {
		a.add(chat.Event{Kind: chat.Other})
	}
	a.events[n].Raw, a.events[n].ModelSpan = raw, model
	for i := n + 1; i < len(a.events); i++ {
		a.events[i].Tail = true
	}
}

func (a *answer) fail(e *chat.ProviderError) {
	a.add(chat.Event{Kind: chat.Error, Err: e})
	a.done = true
}

// failTruncated ends an answer whose body ended before it was complete.
func (a *answer) failTruncated() {
	if !a.done {
		a.fail(&chat.ProviderError{Status: badGateway, Type: truncated, Message: "the answer broke off"})
	}
}

// text returns the text of a string member, copied only if it has escapes.
func (a *answer) text(v jsonx.Value) []byte {
	t, _ := v.Text(&a.arena)
	return t
}
