// Package chat holds the canonical form of a conversation with a model: requests going in, events coming out.
// Nothing here knows about Envoy, HTTP or a provider's JSON.
package chat

import (
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Dialect is a wire format that clients and providers speak.
type Dialect string

// The dialects.
const (
	OpenAI    Dialect = "openai"    // OpenAI Chat Completions
	Anthropic Dialect = "anthropic" // Anthropic Messages

	Responses Dialect = "responses" // OpenAI Responses
	Gemini    Dialect = "gemini"    // Gemini generateContent

	// Embeddings is OpenAI's form of embeddings. It has no conversation.
	Embeddings Dialect = "embeddings"

	// Completions is OpenAI's legacy form with a prompt. A provider that does not speak it is asked for the request's Turn.
	Completions Dialect = "completions"
)

// Op is what a request asks for.
type Op uint8

// The operations.
const (
	Generate    Op = iota // a completion, streamed or not
	CountTokens           // Anthropic's count_tokens
	Embed                 // vectors of texts
)

// Request is one client call. The scalar fields are read in the one pass that also validates the JSON; the
// conversation itself is parsed only when something needs it (another dialect, a layer), once, by Conversation.
// A Request is not safe for concurrent use before Conversation was called; afterwards it is read-only.
type Request struct {
	Dialect     Dialect
	Op          Op
	Model       string // as the client wrote it, without a "provider/" prefix that forced a provider
	Provider    string // the provider that a "provider/model" id forced, or ""
	Stream      bool
	StreamUsage bool   // OpenAI stream_options.include_usage: the client wants the usage chunk
	MaxTokens   int    // 0: not given
	Choices     int    // OpenAI n; at least 1
	Thinking    bool   // the caller asked for visible reasoning or an effort
	HighEffort  bool   // the caller asked for high or maximal effort (time-outs and heartbeats depend on it)
	InputTokens int64  // estimate from the body's text, never below what a provider would count by much
	MostInput   int64  // a bound on what any provider counts: what a request reserves
	Check       string // what the gateway does about the answer before it gives it: another check, another question; "" for nothing

	Version string   // anthropic-version header of an Anthropic client
	Betas   []string // anthropic-beta header values of an Anthropic client
	Query   string   // the raw query string of the client's path, without "?"
	Prompts int      // of a request in Completions: how many it holds
	Turn    *Request // a request in Completions as one in OpenAI; nil: it cannot be said so
	NoTurn  error    // why, a fault
	Needs   []Need   // what only some providers can do, and no other can do without
	Lost    []string // what the client asked for and no provider is asked for: members of a form that the gateway rewrote

	Doc     jsonx.Doc       // the client's bytes, validated, with the spans of its top-level members
	Edit    jsonx.Edits     // changes every attempt needs (e.g. the body's "bardo" object removed)
	Profile *Profile        // what the gateway says for the client; nil for nothing
	Conv    *Conversation   // nil until Conversation parsed it
	Read    ConversationFor // set by the dialect that decoded the request
}

// OwnReasoning begins the ids of reasoning items that the gateway made of another format's thinking: no provider stores them.
const OwnReasoning = "rs_bardo_"

// Need is a feature without which a request cannot be served, and the client's own name of the member that asks for it.
type Need struct {
	Feature policy.Feature
	Member  string
}

// ConversationFor parses a request's conversation from its Doc.
type ConversationFor func(*Request) (*Conversation, error)

// In is the request as a provider is asked that speaks a dialect. The error is a fault.
func (r *Request) In(spoken Dialect) (*Request, error) {
	if r.Dialect != Completions || spoken == Completions {
		return r, nil
	}
	return r.Turn, r.NoTurn
}

// Conversation parses the conversation on first use and returns it. The error is a fault of kind InvalidRequest.
func (r *Request) Conversation() (*Conversation, error) {
	if r.Conv == nil {
		c, err := r.Read(r)
		if err != nil {
			return nil, err
		}
		r.Conv = c
	}
	return r.Conv, nil
}

// Conversation is what both dialects can say.
type Conversation struct {
	System        []Part
	Messages      []Message
	Tools         []Tool
	ToolChoice    ToolChoice
	ParallelTools *bool // nil: the provider's default
	Params        Params
	Unmapped      []string // members that the canonical form does not carry, to be named as degraded

	// Words are the client's own names of what its dialect calls otherwise than Anthropic's does; see Word. Read-only.
	Words map[string]string
}

// Word is the client's own name of a member or a part that a provider cannot be told. name is Anthropic's.
func (c *Conversation) Word(name string) string {
	if own, ok := c.Words[name]; ok {
		return own
	}
	return name
}

// Params are sampling parameters. Numbers keep the client's text, so that 0.3 stays 0.3; "" means not given.
type Params struct {
	Temperature      string
	TopP             string
	TopK             string
	PresencePenalty  string
	FrequencyPenalty string
	Seed             string
	Stop             []string
	User             string
	Effort           string // minimal, low, medium, high, xhigh, max or none
	ThinkingBudget   int    // tokens; 0: not given
	Thinking         ThinkingMode
	ServiceTier      string // TierStandard, or ""
	Schema           jsonx.Raw
	SchemaName       string
	SchemaNote       string // what the schema is for
	SchemaLoose      bool   // the client did not say that the schema is strict, in a format that says so
	JSONMode         bool   // the answer is to be a JSON object of any form; there is no Schema

	MinP      string
	CacheKey  string // groups requests for the provider's prompt cache
	Predicted string // what most of the answer is expected to be
	MarkCache bool   // mark the stable beginning of the prompt for the provider's cache
	Visible   *bool  // whether the reasoning is to be shown; nil: the provider's default
	WebSearch *bool  // whether the provider may search the web
	TEE       bool   // only in attested hardware
}

// TierStandard asks to be served at the usual price and speed, whatever else the account has.
const TierStandard = "standard"

// ThinkingMode is what a caller said about thinking besides an effort or a budget.
type ThinkingMode uint8

// The modes.
const (
	ThinkingUnsaid   ThinkingMode = iota
	ThinkingAdaptive              // the model decides how much
	ThinkingOff
)

// Role is who speaks.
type Role string

// The roles. A tool result is a message of the user (Anthropic) or of its own role (OpenAI); here it is a Part of RoleTool.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleSystem    Role = "system" // a system message in the middle of a conversation
)

// Message is one turn.
type Message struct {
	Role  Role
	At    string // where it stands, as the client's dialect names places: messages[2] or messages.2
	Parts []Part
}

// PartKind says which fields of a Part are set.
type PartKind uint8

// The kinds of content.
const (
	PartText       PartKind = iota // Text
	PartImage                      // Media, Data or URL
	PartDocument                   // Media, Data or URL (or Text, of a plain text), Name, Context
	PartToolUse                    // Tool
	PartToolResult                 // Tool.ID, Parts, IsError
	PartThinking                   // Text, Signature
	PartRedacted                   // Data: Anthropic's opaque redacted thinking
	PartRefusal                    // Text
	PartOther                      // Raw in the dialect it came from, Name, Trace
	PartAudio                      // Media, Data or URL, Name
	PartVideo                      // Media, Data or URL, Name
	PartFile                       // File: what only the provider holds that gave the id; Media if that is known, Name
)

// PartKinds is how many kinds there are.
const PartKinds = int(PartFile) + 1

// Part is one piece of content.
type Part struct {
	Kind         PartKind
	At           string // where it stands, as Message.At; of parts that are more than words, which a provider may not take
	Text         string
	Media        string // MIME type
	Data         string // base64
	URL          string
	File         string // id at the provider that holds it
	Name         string // file name or title; of PartAudio, PartVideo and PartOther, what the client calls the part
	Context      string // what the caller says about a document besides its content
	Tool         ToolCall
	Parts        []Part // content of a tool result
	IsError      bool
	Signature    string
	Trace        bool // of PartOther: what a tool of the provider's own left in the model's turn, which says nothing to another
	CacheControl jsonx.Raw
	Raw          jsonx.Raw
}

// ToolCall is a call of a tool by the model. Args is a JSON object's text, "{}" when there are none.
type ToolCall struct {
	ID   string
	Name string
	Args string
}

// Tool is a tool the model may call.
type Tool struct {
	Name         string
	Description  string
	Schema       jsonx.Raw // JSON Schema of the input
	Strict       bool
	CacheControl jsonx.Raw
	Raw          jsonx.Raw // a tool type that only its own dialect knows
}

// ToolChoiceMode is how the model must use tools.
type ToolChoiceMode uint8

// The modes; ToolAuto is also what an absent choice means.
const (
	ToolAuto ToolChoiceMode = iota
	ToolNone
	ToolAny   // at least one ("required")
	ToolNamed // the one in Name
)

// ToolChoice is the caller's constraint on tool use.
type ToolChoice struct {
	Mode ToolChoiceMode
	Name string
}
