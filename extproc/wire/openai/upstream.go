package openai

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// The members that limit the answer's length.
const (
	MaxTokens           = "max_tokens"
	MaxCompletionTokens = "max_completion_tokens"
)

// RequestOptions are a provider's requirements. The zero value suits a compatible server.
type RequestOptions struct {
	Model       string // the provider's name of the model
	TokensField string // MaxTokens or MaxCompletionTokens; "" keeps the client's, and means MaxTokens for other dialects
	NoEffort    bool   // the model does not accept reasoning_effort; for clients of other dialects only
	MaxStop     int    // maximum number of stop sequences from clients of other dialects; 0: unlimited

	// Efforts are the efforts that the model accepts from clients of other dialects; nil: any. The nearest one is sent.
	Efforts []string
	// FixedSampling is set if the model refuses temperature, top_p and penalties other than the defaults, and, if TokensField is
	// MaxCompletionTokens, as for OpenAI's own such models, stop sequences. Clients of other dialects lose them all; those of this one keep
	// their stop sequences, because the provider's own error is more useful.
	FixedSampling bool

	// FixedByThinking is set if the model refuses these parameters while it thinks, as OpenAI's do unless the effort is none. Members of a
	// client of this dialect are sent unchanged.
	FixedByThinking bool

	// CacheControl is set if the provider supports Anthropic's cache_control on content parts, tools and tool calls, as OpenRouter and
	// LiteLLM do.
	CacheControl bool
	// KeepMarks is set if the provider accepts the client's own cache_control, and none is added.
	KeepMarks bool
	// Extras selects the members of messages that the provider refuses and that clients of this dialect may send.
	Extras Extras
	// MinCache is the minimum size in tokens of a prefix that the provider caches; 0 if unknown.
	MinCache int
	// ReasoningDetails is set if the provider accepts signed thinking in reasoning_details, as OpenRouter does.
	ReasoningDetails bool
	// NoDetails is set if the provider refused the history's reasoning_details, or does not know the member.
	NoDetails bool
	// KeepReasoning is set if the provider reads the history's reasoning member, whatever NoDetails says.
	KeepReasoning bool
	// ReasoningContent is which of the history's reasoning the provider requires in reasoning_content.
	ReasoningContent ReasoningContent

	// Further parameters that the provider supports: OpenAI's own, or extensions.
	TopK, MinP, CacheKey, Predictions bool
	// WebSearch and TEE are set if the adapter itself requests these features of the profile, by Members or by the model's name; otherwise
	// they are named as degraded.
	WebSearch, TEE bool
	// Reasoning is how thinking is controlled, for clients of any dialect.
	Reasoning ReasoningStyle
	// Unknown is set if the catalog does not describe how thinking is controlled: a client's own members of this dialect are sent
	// unchanged.
	Unknown bool
	// EffortOnly is set if the object of ReasoningObject has no budget of tokens.
	EffortOnly bool
	// ReasoningExtra are further members of the object of ReasoningObject, as JSON without braces: "exclude":true. They are added only if
	// the object has a member already.
	ReasoningExtra string
	// NoSchema is set if the provider does not support schemas of answers: they are dropped, and named.
	NoSchema bool
	// StrictSchema is set if the provider supports only strict schemas: others, of clients of other dialects or of profiles, are dropped.
	StrictSchema bool
	// Video is set if the provider accepts video_url from clients of other dialects, as OpenRouter and Alibaba do.
	Video bool
	// Members are set at the top level, in order, and override those of a client of this dialect.
	Members []Member
}

// noStop reports whether the model refuses stop sequences.
func (o *RequestOptions) noStop() bool {
	return (o.FixedSampling || o.FixedByThinking) && o.TokensField == MaxCompletionTokens
}

// fixed reports whether the model refuses sampling parameters at this effort.
func (o *RequestOptions) fixed(effort string) bool {
	return o.FixedSampling || o.FixedByThinking && (effort != effortNone || !slices.Contains(o.Efforts, effortNone))
}

// ReasoningContent selects the reasoning of a history that is sent in reasoning_content.
type ReasoningContent uint8

// The selections.
const (
	AnyReasoningContent      ReasoningContent = iota // what a client of this dialect sends; nothing of other clients
	NoReasoningContent                               // none: the provider refuses it
	ReasoningContentForTools                         // that of turns with tool calls, which DeepSeek requires; it ignores or refuses the reasoning of other turns
)

// Member is a top-level member that only one provider has.
type Member struct {
	Key   string
	Value jsonx.Raw
}

// ReasoningStyle is how thinking is controlled at a provider of this format.
type ReasoningStyle uint8

// The styles.
const (
	ReasoningEffort   ReasoningStyle = iota // "reasoning_effort": "high"
	ReasoningObject                         // "reasoning": {"effort": "high"}, or {"max_tokens": 2000}
	ThinkingLevel                           // "thinking_level": "high" or "low"
	EnableThinking                          // "enable_thinking": true, "thinking_budget": 2000
	TemplateThinking                        // "chat_template_kwargs": {"enable_thinking": true}
	ThinkingToggle                          // "thinking": {"type": "enabled"}; with Efforts, also "reasoning_effort"
	SlashThinking                           // "/think" or "/no_think" before the last text of the user
	PromptedReasoning                       // the model has no parameter: the prompt asks for it
	AlwaysThinking                          // the model always thinks, and has no parameter
)

// EncodeRequest appends to buf the body for a provider that speaks this format, and names what it could not express. A request in the same
// dialect is spliced: bytes that need no change do not change. A request in another one is written from its conversation, always in the same
// order. A streamed request always asks for usage. The error is a fault.
func EncodeRequest(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string, err error) {
	if req.Dialect == chat.OpenAI {
		body, degraded = splice(buf, wire.JoinTexts(req), o)
		return body, degraded, nil
	}
	c, err := wire.Target{Dialect: chat.OpenAI, Video: o.Video}.Conversation(req)
	if err != nil {
		return nil, nil, err
	}
	if o.CacheControl {
		c = wire.Mark(c, req.Cache, o.MinCache)
	}
	w := writer{Writer: wire.Writer{Dst: buf, Conv: c}, req: req, opts: o}
	if err := w.request(); err != nil {
		return nil, nil, err
	}
	return w.Dst, w.Degraded, w.Refused
}

func splice(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string) {
	e := req.Edit.Clone()
	d := &req.Doc
	if o.Model != "" && !d.Get("model").Equal(o.Model) {
		e.Set(d, "model", jsonx.AppendString(nil, o.Model))
	}
	renameTokens(&e, d, o.TokensField)
	degraded = o.cutHistory(&e, d)
	if o.FixedSampling {
		degraded = append(degraded, dropSampling(&e, d)...)
	}
	if req.Profile != nil || o.adjusts(d) {
		a := adjuster{edits: &e, doc: d, req: req, opts: &o, degraded: degraded}
		a.adjust()
		degraded = a.degraded
	}
	if o.CacheControl && req.Cache.SetsMarks() {
		markContents(&e, d, req.Cache, o.MinCache)
	}
	for _, m := range o.Members {
		e.Set(d, m.Key, m.Value)
	}
	if req.Stream && !req.StreamUsage {
		askUsage(&e, d)
	}
	return e.AppendTo(slices.Grow(buf, e.Len(d)), d), degraded
}

// sampling are the sampling parameters that models may refuse, and their default values.
var sampling = [...]struct{ key, defaultValue string }{
	{"temperature", "1"}, {"top_p", "1"}, {"presence_penalty", "0"}, {"frequency_penalty", "0"},
}

// equalsDefault reports whether a number's text is the default value.
func equalsDefault(text, value string) bool { return strings.TrimSuffix(text, ".0") == value }

// dropSampling removes the parameters that the model would refuse, and names them.
func dropSampling(e *jsonx.Edits, d *jsonx.Doc) (degraded []string) {
	for _, s := range sampling {
		if v := d.Get(s.key); !v.IsNull() && !equalsDefault(string(v.Raw), s.defaultValue) {
			e.Delete(d, s.key)
			degraded = append(degraded, s.key)
		}
	}
	return degraded
}

// renameTokens renames the limit of the answer to the member that the provider expects, unless that is present too.
func renameTokens(e *jsonx.Edits, d *jsonx.Doc, want string) {
	other := MaxTokens
	switch want {
	case "":
		return
	case MaxTokens:
		other = MaxCompletionTokens
	}
	v := d.Get(other)
	if v.IsNull() {
		return
	}
	e.Delete(d, other)
	if d.Get(want).IsNull() {
		e.Set(d, want, v.Raw)
	}
}

// askUsage adds include_usage to stream_options, whose other members stay: the charge depends on it.
func askUsage(e *jsonx.Edits, d *jsonx.Doc) {
	const usage = "include_usage"
	options := wire.WithMembers(d.Get("stream_options"), func(key string) bool { return key == usage }, wire.Member{Key: usage, JSON: []byte("true")})
	e.Set(d, "stream_options", options)
}
