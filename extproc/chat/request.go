// Package chat holds the canonical form of a conversation with a model: requests going in, events coming out.
// Nothing here knows about Envoy, HTTP or a provider's JSON.
package chat

import (
	"slices"

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

	// Embeddings is OpenAI's embeddings API. It has no conversation.
	Embeddings Dialect = "embeddings"

	// Completions is OpenAI's legacy API with a prompt. A provider that does not support it gets the request's Turn.
	Completions Dialect = "completions"
)

// Op is the operation of a request.
type Op uint8

// The operations.
const (
	Generate    Op = iota // a completion, streamed or not
	CountTokens           // Anthropic's count_tokens
	Embed                 // vectors of texts
	Modality              // moderation, ranking, images, audio: see package modality
)

// Request is one client call. The scalar fields are read in the one pass that also validates the JSON; the
// conversation itself is parsed only when something needs it (another dialect, a layer), once, by Conversation.
// A Request is not safe for concurrent use before Conversation was called; afterwards it is read-only.
type Request struct {
	Dialect     Dialect
	Op          Op
	Model       string // as the client wrote it, without a "provider/" prefix
	Provider    string // from a "provider/model" id, or ""
	Stream      bool
	StreamUsage bool   // OpenAI stream_options.include_usage: the client wants the usage chunk
	MaxTokens   int    // 0: not given
	Choices     int    // OpenAI n; at least 1
	Thinking    bool   // the client asked for visible reasoning or an effort (time-outs depend on it)
	HighEffort  bool   // the client asked for high or maximum effort (the inferred task depends on it)
	InputTokens int64  // estimate from the body's text, never below what a provider would count by much
	MaxInput    int64  // upper bound of the count of any provider, used for the reservation
	Check       string // checks of the answer by the gateway, which are part of the cache key; "" for none

	Version     string   // anthropic-version header of an Anthropic client
	Betas       []string // anthropic-beta header values of an Anthropic client
	Query       string   // the raw query string of the client's path, without "?"
	Prompts     int      // number of prompts in a Completions request
	Turn        *Request // a Completions request as Chat Completions; nil if it cannot be converted
	TurnError   error    // why Turn is nil, a fault
	Needs       []Need   // features without which a provider cannot serve the request
	VolatileEnd bool     // the last message contains parts that the client marked volatile
	Retrieved   bool     // the last message contains search results that the gateway added, as texts of package wire's SearchResult
	Cites       bool     // the client asked for citations of what the model reads
	Dropped     []string // client's members that no provider gets: from a form that the gateway rewrote

	Doc     jsonx.Doc       // the client's bytes, validated, with the spans of its top-level members
	Edit    jsonx.Edits     // changes every attempt needs (e.g. the body's "bardo" object removed)
	Profile *Profile        // parameters that the gateway adds; nil for none
	Flags   []Flag          // what the client says of the system prompt's blocks, in their order
	Cache   *CachePlan      // where a provider's prompt cache pays; nil for no marks
	Conv    *Conversation   // nil until Conversation parsed it
	Read    ConversationFor // set by the dialect that decoded the request

	// Renew recomputes what is derived from the document after a change, beyond the token counts; nil for most dialects.
	Renew func(*Request) error
}

// SetDocument takes the document of another form of the same request, and what is derived from it.
func (r *Request) SetDocument(of *Request) {
	r.Doc, r.Edit, r.Conv, r.Cache = of.Doc, of.Edit, of.Conv, of.Cache
	r.InputTokens, r.MaxInput, r.Turn, r.TurnError = of.InputTokens, of.MaxInput, of.Turn, of.TurnError
}

// OwnReasoning is the prefix of ids of reasoning items that the gateway converted from another format: no provider stores them.
const OwnReasoning = "rs_bardo_"

// OwnPicture is the same for items with images.
const OwnPicture = "ig_bardo_"

// Need is a feature without which a request cannot be served, and the name of the client's member that requires it.
type Need struct {
	Feature policy.Feature
	Member  string
}

// ConversationFor parses a request's conversation from its Doc.
type ConversationFor func(*Request) (*Conversation, error)

// In returns the request in the form that is encoded for a provider of a dialect. The error is a fault.
func (r *Request) In(spoken Dialect) (*Request, error) {
	if r.Dialect != Completions || spoken == Completions {
		return r, nil
	}
	return r.Turn, r.TurnError
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

// Conversation is a conversation with its parameters, as far as the dialects have them in common.
type Conversation struct {
	System        []Part
	Messages      []Message
	Tools         []Tool
	ToolChoice    ToolChoice
	AllowedTools  []string // names of the tools that the model may call now; nil: all
	ParallelTools *bool    // nil: the provider's default
	Params        Params
	Unmapped      []string // names of members that the canonical form does not have, to be listed as degraded
	Strange       []string // those of them that the client's format does not document: the client chose the names, so they are content

	// Words are the client's names of members that differ from Anthropic's names; see Word. Read-only.
	Words map[string]string
}

// Allows reports whether the model may call a tool now.
func (c *Conversation) Allows(t *Tool) bool {
	return c.AllowedTools == nil || slices.Contains(c.AllowedTools, t.Name)
}

// Word returns the client's name of a member that a provider does not get; name is Anthropic's.
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
	SchemaNote       string // description of the schema
	SchemaLoose      bool   // the client's format has a strict flag, and it is not set
	JSONMode         bool   // the answer must be any JSON object; Schema is empty

	MinP      string
	CacheKey  string // groups requests for the provider's prompt cache
	Predicted string // predicted output: expected text of most of the answer
	MarkCache bool   // the prompt is sent often: layer L1 marks its static prefix from the first request on
	Visible   *bool  // whether the reasoning is returned; nil means the provider's default
	WebSearch *bool  // whether the provider may search the web
	TEE       bool   // only in attested hardware
}

// TierStandard requests the standard price and speed, even if the account's default is another tier.
const TierStandard = "standard"

// ThinkingMode is the reasoning mode besides an effort or a budget.
type ThinkingMode uint8

// The modes.
const (
	ThinkingUnset    ThinkingMode = iota
	ThinkingAdaptive              // the model decides how much
	ThinkingOff
)

// Role is the author of a message.
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
	At    string // path in the client's request, in its dialect's notation: messages[2] or messages.2
	Parts []Part
}

// PartKind is the kind of a part, which determines the fields that are set.
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
	PartFile                       // File: stored by the provider that issued the id; Media if known, Name
)

// PartKinds is the number of kinds.
const PartKinds = int(PartFile) + 1

// Part is one piece of content.
type Part struct {
	Kind         PartKind
	At           string // path as in Message.At, of parts that some providers do not support
	Text         string
	Media        string // MIME type
	Data         string // base64
	URL          string
	File         string // id at the provider that stores it
	Name         string // file name or title; of PartAudio, PartVideo and PartOther, what the client calls the part
	Context      string // the client's context of a document
	Tool         ToolCall
	Parts        []Part // content of a tool result
	IsError      bool
	Signature    string
	Trace        bool // made by a model or a provider's built-in tool, and not needed by providers that do not accept it
	CacheControl jsonx.Raw
	Raw          jsonx.Raw
}

// ToolCall is a tool call by the model. Args is a JSON object, "{}" if there are none.
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

// ToolChoice is the client's constraint on tool use.
type ToolChoice struct {
	Mode ToolChoiceMode
	Name string
}
