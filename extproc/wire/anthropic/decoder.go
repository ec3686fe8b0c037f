package anthropic

import (
	"slices"
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

// Error types of the gateway's own, for answers that are none.
const (
	truncated = "truncated"
	tooLarge  = "too_large"
)

const badGateway = 502

// NewDecoder reads the answer to req from a provider that speaks this format. Status and headers are the provider's.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	d := &Decoder{status: status, header: h, stream: isStream(req, h)}
	d.scanner.Max = maxEvent
	d.answer.raw = d.stream == req.Stream && req.Dialect == chat.Anthropic
	d.answer.count = req.Op == chat.CountTokens
	d.answer.crosses = req.Dialect != chat.Anthropic
	return d
}

// isStream reports whether the body is an event stream: its content type tells, and without one the request.
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

// Decoder turns one answer into events. See provider.Decoder for the contract.
type Decoder struct {
	status  int
	header  header.List
	stream  bool
	scanner sse.Scanner
	body    []byte // of an answer that is no stream
	answer  answer
}

// Decode reads the next piece of the answer; end says that it is the last one.
func (d *Decoder) Decode(chunk []byte, end bool) []chat.Event {
	a := &d.answer
	a.reset()
	switch {
	case a.done:
	case d.status/100 != 2:
		d.failed(chunk, end)
	case d.stream:
		d.frames(d.scanner.Next(chunk), false)
		if end {
			d.frames(d.scanner.End(), true)
			a.cut()
		}
	default:
		d.json(chunk, end)
	}
	return a.events
}

// failed gathers the body of an error. What is too long for one is left unread.
func (d *Decoder) failed(chunk []byte, end bool) {
	d.body = append(d.body, chunk[:min(len(chunk), errbody.MaxBody-len(d.body))]...)
	if end {
		d.answer.fail(errbody.Parse(d.status, d.header, d.body))
	}
}

// frames reads frames. The last of a stream may lack its end; then it counts only if it is a whole object nevertheless.
func (d *Decoder) frames(frames []sse.Frame, last bool) {
	d.answer.events = slices.Grow(d.answer.events, len(frames)) // almost every frame is an event
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

// json gathers a JSON answer, and reads it when it is whole. One that comes in one piece is not copied.
func (d *Decoder) json(chunk []byte, end bool) {
	if len(d.body)+len(chunk) > maxBody {
		d.answer.fail(&chat.ProviderError{Status: badGateway, Type: tooLarge, Message: "the answer is too large"})
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

// answer is what the decoder knows of an answer, and the events of the chunk at hand.
type answer struct {
	raw   bool // events carry the provider's bytes: the client reads this format, and asked for this form of it
	count bool // the answer is a count of tokens, not a message
	done  bool // the answer has ended or failed

	events []chat.Event
	arena  []byte // unescaped text of the events
	parser jsonx.Parser

	open    openBlock
	usage   chat.Usage
	thought int  // bytes of thinking that were seen
	tier    bool // the service tier was told
	crosses bool // the client reads another format
	points  int  // code points of text, where they are counted
	cited   int  // citations
	served  bool // the provider's own tools were counted
}

// openBlock is the content block that deltas belong to.
type openBlock struct {
	index int
	kind  blockKind
	input []byte // a tool's arguments that came with its start; used when no deltas bring them
	raw   []byte // of another block: as it began
	key   string // of another block: the member that deltas extend
	more  []byte // and by what

	cites []chat.Event // citations of its text, for clients of other formats
	begin int          // code points of text before it
}

type blockKind uint8

const (
	otherBlock blockKind = iota // none, or one that only this format knows
	contentBlock
	toolBlock
)

func (a *answer) reset() {
	clear(a.events)
	a.events, a.arena = a.events[:0], a.arena[:0]
}

func (a *answer) add(ev chat.Event) { a.events = append(a.events, ev) }

// own gives the events from the n-th on the bytes that they came from: the first carries them, the rest are its tail.
// Bytes without an event become an Other event.
func (a *answer) own(n int, raw []byte, model chat.Span) {
	if !a.raw {
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

// cut ends an answer whose bytes ended before it did.
func (a *answer) cut() {
	if !a.done {
		a.fail(&chat.ProviderError{Status: badGateway, Type: truncated, Message: "the answer broke off"})
	}
}

// text is a string member's text, unescaped only where it must be.
func (a *answer) text(v jsonx.Value) []byte {
	t, _ := v.Text(&a.arena)
	return t
}
