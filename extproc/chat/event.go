package chat

import (
	"bytes"
	"cmp"

	"bardo.money/gateway/policy"
)

// EventKind says which fields of an Event are set.
type EventKind uint8

// The events of an answer, in the order in which they may come: one Start, then content, then Stop, Usage and End.
// Usage may come more than once; a later one replaces the fields it knows (see Usage.Merge).
const (
	Start     EventKind = iota // ID, Model; the answer has begun (no content yet)
	Text                       // Index, Text: a piece of the answer
	Thought                    // Index, Text: a piece of visible reasoning; ID: ClaudeThinking, if its block may be signed
	Signature                  // Index, Text: signature of the thinking block that ends; ID as of Thought
	Redacted                   // Index, Text: an opaque redacted thinking block, whole; ID as of Thought
	Refusal                    // Index, Text: a piece of a refusal
	ToolStart                  // Index, Tool.ID, Tool.Name; ID: CustomTool, if its arguments are no JSON
	ToolArgs                   // Index, Text: a piece of the arguments' JSON
	BlockStop                  // Index: this block is complete
	Stop                       // Reason (and Text: the stop sequence that matched)
	UsageInfo                  // Usage; Text: the provider's own usage object, in its dialect
	Error                      // Err: the provider failed inside its answer; nothing follows
	End                        // the stream's terminator, or the end of a JSON answer
	Other                      // bytes that have a meaning only in their own dialect (pings, unknown events)
	Extra                      // ID: its name, Index, Choice, Text: its JSON, Said: something that only its own dialect says
)

// ClaudeThinking is the ID of thinking that comes signed, or redacted, as Anthropic's models do it. It is the name of
// the format in OpenRouter's reasoning_details.
const ClaudeThinking = "anthropic-claude-v1"

// CustomTool is the ID of a ToolStart whose arguments are free text (OpenAI's custom tools).
const CustomTool = "custom"

// ServiceTier is the name of the one extra that both dialects have, with words of their own: its Text is a JSON string.
const ServiceTier = "service_tier"

// Event is one step of an answer. Byte slices alias the decoder's buffer and are valid until its next call.
//
// When provider and client speak the same dialect, Raw holds the provider's own bytes of the whole frame (an SSE event
// with its blank line, or a JSON body), and a frame that means several things yields several events: the first
// carries Raw, the rest have Tail set. Where such a frame is the stream's terminator, its End event carries Raw, and those
// before it have Tail set. An encoder of the same dialect writes Raw and skips Tails.
//
// Without Raw and Tail, the events of an answer still say all of it: an encoder of the same dialect writes it in the
// other form (stream or JSON) from them alone, and one of another dialect names what it had no words for.
type Event struct {
	Kind   EventKind
	Tail   bool
	Said   bool // of an Extra: other events say the same, so that a dialect without it loses nothing
	Index  int  // position of the content block in the answer, from 0
	Choice int  // OpenAI choice, 0 unless n > 1
	Text   []byte
	ID     string
	Model  string
	Tool   ToolCall
	Reason StopReason
	Usage  Usage
	Err    *ProviderError
	Cites  []Citation // of an Extra, for clients of other formats: what its Text says in words that all have

	Raw        []byte
	ModelSpan  Span // where Raw names the model (the JSON string with its quotes); zero if it does not
	UsageChunk bool // Raw is OpenAI's extra usage chunk, which a client that did not ask for must not see
}

// Detached is the event with bytes of its own, for who keeps it longer than its decoder does.
func (ev *Event) Detached() Event {
	e := *ev
	e.Text, e.Raw = bytes.Clone(ev.Text), bytes.Clone(ev.Raw)
	return e
}

// Span is a range of bytes, End excluded.
type Span struct{ Start, End int }

// StopReason is why the model stopped.
type StopReason string

// The reasons.
const (
	StopEnd      StopReason = "end"
	StopLength   StopReason = "length"
	StopTool     StopReason = "tool"
	StopSequence StopReason = "sequence"
	StopRefusal  StopReason = "refusal"
	StopPause    StopReason = "pause"   // Anthropic pause_turn
	StopContext  StopReason = "context" // the window was exceeded
)

// ProviderError is an error as the provider stated it. Message is not shown to clients unless the error is of their own making.
type ProviderError struct {
	Dialect    Dialect // whose words Type and Code are; "" if nobody said
	Status     int     // HTTP status, or the one that the error's type implies
	Type       string
	Code       string
	Message    string
	Param      string
	RetryAfter int // seconds, 0 if not said
}

// Usage counts tokens. Input excludes tokens read from or written to a prompt cache; Output includes reasoning.
type Usage struct {
	Input              int64
	Cached             int64
	CacheWrite         int64 // written with the five-minute (or only) lifetime
	CacheWrite1h       int64 // written with the one-hour lifetime
	Output             int64
	Reasoning          int64
	Searches           int64 // of the web, that the provider made
	Estimated          bool  // counted by the gateway, because the provider did not say
	ReasoningEstimated bool  // so is Reasoning alone, from the text of the thoughts
	Final              bool  // the provider's last word on output tokens

	Cost policy.Pico // what the provider says that it asks for the answer; 0 if it does not say
	Tier string      // the tier of service that the provider says it answered in; "" if it does not say
}

// TotalInput is every input token, cached or not (OpenTelemetry's gen_ai.usage.input_tokens).
func (u *Usage) TotalInput() int64 { return u.Input + u.Cached + u.CacheWrite + u.CacheWrite1h }

// Merge folds a later report into u: zero fields of the later one do not erase what an earlier one said (Anthropic
// states input in message_start and output in message_delta; some gateways repeat zeros at the end).
func (u *Usage) Merge(v Usage) {
	set := func(dst *int64, n int64) {
		if n > 0 {
			*dst = n
		}
	}
	set(&u.Input, v.Input)
	set(&u.Cached, v.Cached)
	set(&u.CacheWrite, v.CacheWrite)
	set(&u.CacheWrite1h, v.CacheWrite1h)
	set(&u.Output, v.Output)
	set(&u.Searches, v.Searches)
	if v.Reasoning > 0 {
		u.Reasoning, u.ReasoningEstimated = v.Reasoning, v.ReasoningEstimated
	}
	u.Final = u.Final || v.Final
	u.Cost = max(u.Cost, v.Cost)
	u.Tier = cmp.Or(v.Tier, u.Tier)
}

// IsContent reports whether the event shows the client something of the answer: after it, no other provider may be tried.
func (k EventKind) IsContent() bool {
	switch k {
	case Text, Thought, Signature, Redacted, Refusal, ToolStart, ToolArgs, Stop, End:
		return true
	case Start, BlockStop, UsageInfo, Error, Other, Extra:
		return false
	}
	return false
}
