package openai

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/answer"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/sse"
)

const (
	// maxEvent is the size in bytes of the longest event of a stream.
	maxEvent = 16 << 20

	// maxCalls is how many tool calls a choice may have: each piece of one is looked up among them.
	maxCalls = 1024
)

// Decoder reads a provider's answer: a stream of chat.completion.chunk events, one chat.completion, or an error. It
// implements provider.Decoder.
//
// Blocks are numbered in the order in which they begin. Several tool calls may be open at once: they are closed
// together, right before Stop.
type Decoder struct {
	answer.Reader
	id      string            // the answer's
	began   bool              // an answer was recognised
	blocks  int               // content blocks so far
	wanted  int               // choices that the request asked for
	names   map[string]string // of tools whose names were cut, as the client knows them
	choices []choice
	said    once

	crosses bool // the client reads another format
	cited   int  // citations that were told

	searched bool // the provider searched the web, and does not say how often
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

// NewDecoder reads the answer to a request made with EncodeRequest. Whether the body is a stream is told by its content
// type, and by the request when there is none.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	f := answer.Format{Dialect: chat.OpenAI, MaxEvent: maxEvent, Terminator: terminator}
	return &Decoder{
		Reader: answer.NewReader(f, req, status, h), wanted: max(1, req.Choices), names: wire.LongNames(req, chat.OpenAI),
		crosses:  req.Dialect != chat.OpenAI,
		searched: req.Dialect == chat.OpenAI && !req.Doc.Get("web_search_options").IsNull(), // such models search for every answer
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
		d.close()
	default:
		d.whole()
	}
	return d.Events
}

// terminator is the data of a stream's last frame.
const terminator = "[DONE]"

// frame reads one SSE event. The first of the events it means carries its bytes.
func (d *Decoder) frame(f *sse.Frame) {
	first := len(d.Events)
	var model chat.Span
	var usageChunk bool
	switch {
	case f.TooLong: // its bytes are lost; the stream goes on
		d.Emit(chat.Event{Kind: chat.Extra, ID: oversized})
		return
	case string(f.Data) == terminator:
		d.done()
	case f.Data != nil:
		model, usageChunk = d.chunk(f)
	}
	d.Own(first, f.Raw, model)
	d.Events[first].UsageChunk = usageChunk && d.Passes
}

// done is the terminator. A provider that sends it and nothing else has not answered.
func (d *Decoder) done() {
	if !d.began {
		d.Fail("empty", "the provider ended its stream without an answer")
		return
	}
	d.End()
}

// close is the end of the body. Some servers leave out the terminator; an answer whose choices all have their
// finish_reason is complete.
func (d *Decoder) close() {
	if d.stopped() && len(d.choices) >= d.wanted {
		d.done()
	} else {
		d.Fail("truncated", "the provider's stream ended before its answer was complete")
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

// whole reads a complete JSON answer.
func (d *Decoder) whole() {
	v, err := d.JSON()
	if err != nil {
		d.FailWith(err)
		return
	}
	d.completion(v)
}
