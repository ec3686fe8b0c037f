package chat

import (
	"bytes"
	"cmp"

	"bardo.money/gateway/policy"
)

// EventKind is the kind of an event, which determines the fields that are set.
type EventKind uint8

// The events of an answer, in the order in which they may come: one Start, then content, then Stop, Usage and End.
// Usage may come more than once; a later one replaces the fields it knows (see Usage.Merge).
const (
	Start     EventKind = iota // ID, Model; before any content
	Text                       // Index, Text: a piece of the answer
	Thought                    // Index, Text: a piece of visible reasoning; ID: ClaudeThinking, if its block may be signed
	Signature                  // Index, Text: signature of the thinking block that ends; ID as of Thought
	Redacted                   // Index, Text: an opaque redacted thinking block, whole; ID as of Thought
	Refusal                    // Index, Text: a piece of a refusal
	ToolStart                  // Index, Tool.ID, Tool.Name; ID: CustomTool, if its arguments are not JSON
	ToolArgs                   // Index, Text: a piece of the arguments' JSON
	BlockStop                  // Index: this block is complete
	Stop                       // Reason (and Text: the stop sequence that matched)
	UsageInfo                  // Usage; Text: the provider's own usage object, in its dialect
	Error                      // Err: the provider failed inside its answer; nothing follows
	End                        // the stream's terminator, or the end of a JSON answer
	Other                      // bytes that only the same dialect understands (pings, unknown events); Tool, Index: an own call begins, see IsOwnCall
	Extra                      // ID: its name, Index, Choice, Text: its JSON, Redundant: a member that only its own dialect has; Tool: see IsOwnCall
)

// ClaudeThinking is the ID of Thought events whose reasoning is signed or redacted, as with Anthropic's models. It is the name of this format
// in OpenRouter's reasoning_details.
const ClaudeThinking = "anthropic-claude-v1"

// CustomTool is the ID of a ToolStart whose arguments are free text (OpenAI's custom tools).
const CustomTool = "custom"

// ServiceTier is the name of the one Extra that several dialects have, with different values: its Text is a JSON string.
const ServiceTier = "service_tier"

// The Extras of the Responses API that are about the block that follows, which has their Index.
const (
	ItemID        = "item_id"        // the id of its item: a JSON string; without a Text, it has none
	MessagePhase  = "phase"          // of a message, commentary or the final answer: a JSON string
	ReasoningText = "reasoning_text" // the reasoning is no summary
)

// IsAhead reports whether the event is an Extra about the block that follows.
func (ev *Event) IsAhead() bool {
	return ev.Kind == Extra && ev.Redundant && (ev.ID == ItemID || ev.ID == MessagePhase || ev.ID == ReasoningText)
}

// Event is one step of an answer. Byte slices alias the decoder's buffer and are valid until its next call.
//
// When provider and client speak the same dialect, Raw holds the provider's own bytes of the whole frame (an SSE event
// with its blank line, or a JSON body), and a frame that means several things yields several events: the first
// carries Raw, the rest have Tail set. Where such a frame is the stream's terminator, its End event carries Raw, and those
// before it have Tail set. An encoder of the same dialect writes Raw and skips Tails.
//
// Without Raw and Tail, the events still describe the whole answer: an encoder of the same dialect can write it in the other form (stream or
// JSON), and one of another dialect lists what it cannot express.
type Event struct {
	Kind      EventKind
	Tail      bool
	Redundant bool // of an Extra: other events have the same information, so a dialect without it loses nothing
	Index     int  // position of the content block in the answer, from 0
	Choice    int  // OpenAI choice, 0 unless n > 1
	Text      []byte
	ID        string
	Model     string
	Tool      ToolCall
	Reason    StopReason
	Usage     Usage
	Err       *ProviderError
	Cites     []Citation // of an Extra: the citations in its Text, for other formats

	Frame FramePart // what MarkCalls says of its frame

	Raw        []byte
	ModelSpan  Span // position of the model's name in Raw (with its quotes); zero if there is none
	UsageChunk bool // Raw is OpenAI's usage chunk, which is only sent to clients that requested it
}

// IsOwnCall reports whether the event is the call of a tool that its provider defines, such as a shell or a search of the web, or that of an MCP server. The call is
// an Extra with the name of the tool in Tool; in a stream, an Other with the same Index and Tool may announce it. An Extra with an ID alone in Tool is the result
// of the own call with this ID.
func (ev *Event) IsOwnCall() bool {
	return (ev.Kind == Extra || ev.Kind == Other) && ev.Tool.Name != ""
}

// Detached returns a copy of the event that does not refer to the decoder's buffer.
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
	StopContext  StopReason = "context" // the context window was exceeded
)

// ProviderError is an error of a provider. Message is only shown to clients if their request caused the error.
type ProviderError struct {
	Dialect    Dialect // of Type and Code; "" if unknown
	Status     int     // HTTP status, or the one that the error's type implies
	Type       string
	Code       string
	Message    string
	Param      string
	RetryAfter int    // seconds, 0 if not said
	Generated  string // what the model had written, of Groq's errors about tool calls; "" if it is not stated or long

	Unusable bool // the provider reported no error, but what it sent is no answer; Status is not its own, and Message is the gateway's
}

// Usage counts tokens. Input excludes tokens read from or written to a prompt cache; Output includes reasoning.
type Usage struct {
	Input              int64
	Cached             int64
	CacheWrite         int64 // written with the five-minute (or only) lifetime
	CacheWrite1h       int64 // written with the one-hour lifetime
	Output             int64
	Reasoning          int64
	Searches           int64 // web searches by the provider
	Estimated          bool  // estimated by the gateway, because the provider reported none
	ReasoningEstimated bool  // only Reasoning is estimated, from its text
	Final              bool  // the output tokens are final

	Cost      policy.Pico // the charge that the provider reports; 0 if none
	CostKnown bool        // the provider reports its charge, even if that is 0
	Tier      string      // the service tier that the provider reports; "" if none
}

// TotalInput returns all input tokens, cached or not (OpenTelemetry's gen_ai.usage.input_tokens).
func (u *Usage) TotalInput() int64 { return u.Input + u.Cached + u.CacheWrite + u.CacheWrite1h }

// Merge adds a later report to u. Zero fields of the later one do not overwrite earlier values: Anthropic reports input in message_start and
// output in message_delta, and some gateways repeat zeros at the end.
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
	u.Cost, u.CostKnown = max(u.Cost, v.Cost), u.CostKnown || v.CostKnown
	u.Tier = cmp.Or(v.Tier, u.Tier)
}

// IsContent reports whether the event is visible content of the answer, after which no other provider may be tried.
func (k EventKind) IsContent() bool {
	switch k {
	case Text, Thought, Signature, Redacted, Refusal, ToolStart, ToolArgs, Stop, End:
		return true
	case Start, BlockStop, UsageInfo, Error, Other, Extra:
		return false
	}
	return false
}
