package fake

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/e2e/fake/enclave"
)

// Behaviour is how the fake answers one request. The zero value is a healthy provider that says a short sentence.
type Behaviour struct {
	// What it says.
	Text        string     // "" : "Hello from the fake provider."
	Tokens      int        // > 0: this many words instead of Text
	TokenSize   int        // bytes of each of these words; 0: "tok0 ", "tok1 ", …
	ToolCalls   []ToolCall // after the text; Text is then empty unless it was set
	Thoughts    []Thought  // before the text
	Between     []Thought  // after the text and before the calls, as models of Anthropic's format think between them
	Stop        string     // the provider's own stop reason; "": what fits the content
	Usage       *Usage     // nil: counted
	AnswerModel string     // the model that the answer names; "": the one that was asked for
	Extra       string     // JSON members put into the answer as unknown fields, e.g. `"x_new":{"a":1}`

	// What it says to who asks for a schema, in whichever way, where Text, Tokens and ToolCalls say nothing.
	JSON string // "": made up from the schema, valid
	Flaw Flaw   // what is wrong with it

	// Echo, where it is not nil, has it say the last match in the request's body, and a word of this one answer, in the place of Text and JSON.
	Echo *regexp.Regexp

	// Answered, where it is not nil, is what it does once the last message brings a tool's result.
	Answered *Behaviour

	// From, where it is not nil, says by the request, which the provider takes, what it does instead of all else here.
	From func(*Request) Behaviour

	// When it says it.
	HeaderDelay time.Duration // before the status line
	FirstToken  time.Duration // between the headers (and the preamble) and the first content
	Gap         time.Duration // between pieces of content
	UsageDelay  time.Duration // OpenAI: between the finish reason and the chunk with the usage

	// How it refuses: a status of 400 and more answers with an error body in the dialect's format.
	Status     int
	ErrorType  string        // "": what the dialect says for the status
	ErrorCode  string        // OpenAI only
	Message    string        // "": a typical sentence
	RetryAfter string        // the header's value
	Recovers   time.Duration // > 0: it refuses so long after the model's first request, and is healthy from then on
	Encoding   string        // "gzip" or "br": content-encoding of a body that is not streamed, even where identity was asked for
	Raw        *Raw          // answers with exactly this
	Header     []string      // "name: value" is added to a successful answer's headers, "-name" leaves out one of the provider's own

	Sealed func([]byte) []byte    // changes the sealed answer of a vault
	Forge  func(*enclave.Receipt) // changes the receipt of an enclave before it is signed and sent

	// How it breaks.
	Break Break

	// How its bytes look.
	Shape Shape

	Piece int // characters of a piece of text; 0: a word
}

// ToolCall is a call the fake makes. Pieces is into how many deltas a stream cuts the arguments; 0 means one, and
// arguments of "" are a call without any argument delta.
type ToolCall struct {
	ID     string // "": made up, in the provider's form
	Name   string
	Args   string
	Pieces int
}

// Thought is a block of visible reasoning: a signed thinking block of Anthropic, or reasoning_content. Redacted blocks
// have only Data.
type Thought struct {
	Text string
	Data string // not "": a redacted_thinking block with this data
}

// Usage overrides the numbers that the fake reports. Input is what was neither read from nor written to a cache; Output
// includes Reasoning.
type Usage struct {
	Input, Cached, CacheWrite5m, CacheWrite1h, Output, Reasoning int

	OnlyAtEnd bool // Anthropic: message_start reports zeros, message_delta everything
	Missing   bool // never reported, though it was asked for

	Searches int // of the web, that the provider made

	Tier string // the tier of service that the answer names; "": the usual one

	given bool // by a test, not counted
}

// tier is the tier of service that an answer names, in OpenAI's words.
func (b *Behaviour) tier() string {
	if b.Usage == nil {
		return "default"
	}
	return or(b.Usage.Tier, "default")
}

// Raw is an answer given byte for byte. Header values are "name: value".
type Raw struct {
	Status int
	Header []string
	Body   string
}

// BreakKind is how an answer is broken off.
type BreakKind uint8

// The ways to break.
const (
	Healthy    BreakKind = iota
	Reset                // TCP reset
	Close                // the connection is closed in order, but the message is not complete
	Hang                 // silence until the caller goes away
	ErrorEvent           // the dialect's error event (or error object in a JSON body) under status 200
	Stop                 // the stream ends in order, but without its terminator
)

// Stage is where it happens.
type Stage uint8

// The stages, in order.
const (
	BeforeHeaders Stage = iota
	AfterHeaders        // status and headers are out, no byte of the body
	AfterTokens         // the preamble and Break.Tokens pieces of content are out; half of a body that is not streamed
)

// Break says how and where an answer ends too early.
type Break struct {
	Kind   BreakKind
	At     Stage
	Tokens int
}

// Shape is the form of an event stream's bytes; the zero value is what the real provider sends.
type Shape struct {
	LineEnd      string         // "\r\n" or "\r" instead of "\n"
	NoSpace      bool           // "data:{" instead of "data: {"
	Cut          int            // bytes per write, each flushed; 0: one write per event
	CutGap       time.Duration  // between the writes of one event
	Unterminated bool           // the last event lacks its blank line
	NoTerminator bool           // no [DONE], no message_stop
	Before       map[int]string // raw bytes put before the n-th piece of content
}

const defaultText = "Hello from the fake provider."

// pieces are the words of the answer's text.
func (b *Behaviour) pieces() []string {
	if b.Tokens > 0 {
		ps := make([]string, b.Tokens)
		long := word(0, b.TokenSize) // shared by all pieces: thousands of long ones would take as much memory as the whole answer
		for i := range ps {
			if ps[i] = long; b.TokenSize == 0 {
				ps[i] = word(i, 0)
			}
		}
		return ps
	}
	text := b.Text
	if text == "" && len(b.ToolCalls) == 0 {
		text = defaultText
	}
	if text == "" {
		return nil
	}
	if b.Piece > 0 {
		return cut(text, 1+len(text)/b.Piece)
	}
	return strings.SplitAfter(text, " ")
}

func word(i, size int) string {
	if size > 0 {
		return strings.Repeat("x", size-1) + " "
	}
	return "tok" + strconv.Itoa(i) + " "
}

// pieces cuts the arguments of a call into its deltas, between characters.
func (c *ToolCall) pieces() []string {
	if c.Args == "" {
		return nil
	}
	return cut(c.Args, max(c.Pieces, 1))
}

// cut cuts a text into at most n pieces of about one length, between characters.
func cut(text string, n int) []string {
	runes := []rune(text)
	n = min(n, len(runes))
	ps := make([]string, 0, n)
	for i := range n {
		ps = append(ps, string(runes[i*len(runes)/n:(i+1)*len(runes)/n]))
	}
	return ps
}

// pieces cuts a thought into words.
func (t *Thought) pieces() []string { return strings.SplitAfter(t.Text, " ") }

// echo sets what it says to a request with a body, as the n-th of a server.
func (b *Behaviour) echo(server string, n int64, body []byte) {
	if b.Echo == nil {
		return
	}
	said := fmt.Sprintf("ANSWER-%s-%d-END ", server, n)
	if all := b.Echo.FindAll(body, -1); len(all) > 0 {
		said += string(all[len(all)-1])
	}
	if b.Text, b.JSON = said, ""; bytes.Contains(body, []byte(`"json_schema"`)) {
		b.Text, b.JSON = "", `{"price":"`+said+`"}`
	}
}
