package chatcompletion

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/answer"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/sse"
)

// MaxChoices is the maximum number of choices in a request or an answer: each multiplies the cost.
const MaxChoices = 128

const (
	// maxEvent is the maximum size of a stream's event in bytes.
	maxEvent = 16 << 20

	// maxCalls is the maximum number of tool calls in a choice: each piece of a call is searched for linearly among them.
	maxCalls = 1024
)

// Decoder reads a provider's answer: a stream of chat.completion.chunk events, one chat.completion, or an error. It implements
// provider.Decoder.
//
// Blocks are numbered in the order in which they start. Several tool calls may be open at the same time: they are closed together,
// immediately before Stop.
type Decoder struct {
	answer.Reader
	id        string            // the answer's
	began     bool              // the Start event was emitted
	requested int               // number of requested choices
	ownNames  map[string]string // the client's tool names, by those that were sent
	choices   []choice
	sent      sentOnce

	translates bool // the client speaks another dialect
	citations  int  // citations so far

	searched bool // the provider searched the web, but may not report the number of searches
}

// sentOnce records the members that an answer may repeat in every chunk and that are emitted once.
type sentOnce struct {
	tier, fingerprint, provider, reasoning, usageDetails, unknown bool
}

// choice is the state of one choice.
type choice struct {
	open      answer.Block
	reasoning reasoningState
	tools     []call
	executed  map[int64]int // blocks of the calls that the provider ran, by their numbers
	stopped   bool          // its finish_reason was received
}

// reasoningState is the state of a choice's reasoning.
type reasoningState struct {
	detail      int64  // the open block's index in reasoning_details; -1 if it has none
	signed      bool   // the open block has its signature
	plain       bool   // reasoning was received without reasoning_details
	format      string // of the last object of reasoning_details
	formatIndex int64  // index of that object
}

// call is a tool call in progress.
type call struct {
	index   int64 // the provider's number
	id      string
	block   int
	args    bool // arguments were emitted
	stopped bool
}

// NewDecoder returns a decoder of the answer to req. The content type determines whether the body is a stream; without one, the request
// does.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	f := answer.Format{Dialect: chat.OpenAI, MaxEvent: maxEvent, Terminator: terminator}
	return &Decoder{
		Reader: answer.NewReader(f, req, status, h), requested: max(1, req.Choices), ownNames: wire.OwnNames(req, chat.OpenAI),
		translates: req.Dialect != chat.OpenAI,
		searched:   req.Dialect == chat.OpenAI && !req.Doc.Get("web_search_options").IsNull(), // models with this member search for every answer
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

// terminator is the data of a stream's last frame.
const terminator = "[DONE]"

// frame reads one SSE event. The first of its chat events carries its bytes.
func (d *Decoder) frame(f *sse.Frame) {
	first := len(d.Events)
	var model chat.Span
	var usageChunk bool
	switch {
	case f.TooLong: // its bytes are dropped; the stream continues
		d.Emit(chat.Event{Kind: chat.Extra, ID: oversized})
		return
	case string(f.Data) == terminator:
		d.done()
	case f.Data != nil:
		model, usageChunk = d.chunk(f)
	}
	d.AttachFrame(first, f.Raw, model)
	d.Events[first].UsageChunk = usageChunk && d.Passes
}

// done handles the terminator. An answer that consists of nothing else is an error.
func (d *Decoder) done() {
	if len(d.choices) == 0 {
		d.Fail("empty", "the provider ended its stream without an answer")
		return
	}
	d.End()
}

// close handles the end of the body. Some servers omit the terminator: an answer whose choices all have their finish_reason is complete.
func (d *Decoder) close() {
	if d.stopped() && len(d.choices) >= d.requested {
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
