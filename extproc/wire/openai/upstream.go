package openai

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// The members by which a request limits the answer's length.
const (
	MaxTokens           = "max_tokens"
	MaxCompletionTokens = "max_completion_tokens"
)

// RequestOptions say what a provider wants to read. The zero value suits a compatible server.
type RequestOptions struct {
	Model       string // the name the provider knows the model by
	TokensField string // MaxTokens or MaxCompletionTokens; "" keeps the client's, and is MaxTokens for other dialects
	NoEffort    bool   // the model does not take reasoning_effort; said by clients of other dialects only
	MaxStop     int    // how many stop sequences it takes from clients of other dialects; 0: any number

	// Efforts are the efforts that the model takes from clients of other dialects; nil: whatever they say. The nearest one
	// is asked for.
	Efforts []string
	// FixedSampling is set where the model refuses temperature, top_p and penalties but for the values that are usual
	// anyway, and, where it counts tokens as MaxCompletionTokens as OpenAI's own such models do, stop sequences. Clients of other
	// dialects lose them all; those of this one keep their stop sequences, for which the provider's own refusal is the better answer.
	FixedSampling bool

	// FixedByThinking is set where the model refuses them while it thinks, as OpenAI's do unless the effort is none. A client of this
	// dialect that says some itself knows better.
	FixedByThinking bool

	// CacheControl is set where the provider understands Anthropic's cache_control on content parts, tools and tool calls,
	// as OpenRouter's and LiteLLM's servers do.
	CacheControl bool
	// MinCache is the least tokens of a prompt's beginning that the provider caches; 0 if unknown.
	MinCache int
	// ReasoningDetails is set where the provider takes signed thinking back in reasoning_details, as OpenRouter does.
	ReasoningDetails bool
	// NoDetails is set where the provider refused the history's reasoning_details, or knows none.
	NoDetails bool
	// ReasoningContent is what the provider wants to see again of what its model thought, in reasoning_content.
	ReasoningContent ReasoningContent

	// What the provider takes beyond OpenAI's own parameters, or does not take of them.
	TopK, MinP, CacheKey, Predictions bool
	// WebSearch and TEE are set where the adapter itself asks for what the profile wants, by Members or by the model's name;
	// else it is named as lost.
	WebSearch, TEE bool
	// Reasoning is how the provider is told how hard to think, by clients of any dialect.
	Reasoning ReasoningStyle
	// Unknown is set where nobody said how the model is told: what a client of this dialect says itself goes as it came.
	Unknown bool
	// EffortOnly is set where the object of ReasoningObject takes no budget of tokens.
	EffortOnly bool
	// ReasoningExtra are further members of the object of ReasoningObject, as JSON without braces: "exclude":true. They are said
	// where the object says something already.
	ReasoningExtra string
	// NoSchema is set where the provider answers by no schema: it is left out, and named.
	NoSchema bool
	// StrictSchema is set where it answers by strict schemas alone: any other of clients of other dialects, or of a profile, is left out.
	StrictSchema bool
	// Video is set where the provider takes video_url from clients of other dialects, as OpenRouter and Alibaba do.
	Video bool
	// Members are set at the top of the body, over what a client of this dialect says there, in their order.
	Members []Member
}

// noStop reports whether the model takes no stop sequences.
func (o *RequestOptions) noStop() bool {
	return (o.FixedSampling || o.FixedByThinking) && o.TokensField == MaxCompletionTokens
}

// fixed reports whether the model takes no word about sampling when it is told to think so hard.
func (o *RequestOptions) fixed(effort string) bool {
	return o.FixedSampling || o.FixedByThinking && (effort != effortNone || !slices.Contains(o.Efforts, effortNone))
}

// ReasoningContent is how much of a history's reasoning goes back in reasoning_content.
type ReasoningContent uint8

// How much.
const (
	AnyReasoningContent      ReasoningContent = iota // what a client of this dialect sends, and nothing of others
	NoReasoningContent                               // nothing: the provider refuses it
	ReasoningContentForTools                         // that of turns that called tools, which DeepSeek wants; other turns', it ignores or refuses
)

// Member is a member of the body that only one provider knows.
type Member struct {
	Key   string
	Value jsonx.Raw
}

// ReasoningStyle is how a provider of this format is told how hard to think.
type ReasoningStyle uint8

// The styles.
const (
	ReasoningEffort   ReasoningStyle = iota // "reasoning_effort": "high"
	ReasoningObject                         // "reasoning": {"effort": "high"}, or {"max_tokens": 2000}
	ThinkingLevel                           // "thinking_level": "high", of which there are low and high only
	EnableThinking                          // "enable_thinking": true, "thinking_budget": 2000
	TemplateThinking                        // "chat_template_kwargs": {"enable_thinking": true}
	ThinkingToggle                          // "thinking": {"type": "enabled"}; with Efforts, also "reasoning_effort"
	SlashThinking                           // "/think" or "/no_think" before the last text of the user
	PromptedReasoning                       // the model has no control: it is asked in words
	AlwaysThinking                          // the model always thinks, and is told nothing
)

// EncodeRequest appends to buf the body for a provider that speaks this format, and names what it could not say. A
// request in the same dialect is spliced: what need not change does not. A request in another is written from its
// conversation, always in the same order. A streamed request always asks for usage. The error is a fault.
func EncodeRequest(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string, err error) {
	if req.Dialect == chat.OpenAI {
		body, degraded = splice(buf, req, o)
		return body, degraded, nil
	}
	c, err := req.Conversation()
	if err != nil {
		return nil, nil, err
	}
	if err := wire.CheckCalls(c); err != nil {
		return nil, nil, err
	}
	if err := (wire.Target{Dialect: chat.OpenAI, Video: o.Video}).CheckContent(c, req.Dialect); err != nil {
		return nil, nil, err
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
	degraded = o.cutThoughts(&e, d)
	if o.FixedSampling {
		degraded = append(degraded, dropSampling(&e, d)...)
	}
	if req.Profile != nil || o.adjusts(d) {
		a := adjuster{e: &e, d: d, req: req, o: &o, lost: degraded}
		a.adjust()
		degraded = a.lost
	}
	for _, m := range o.Members {
		e.Set(d, m.Key, m.Value)
	}
	if req.Stream && !req.StreamUsage {
		askUsage(&e, d)
	}
	return e.AppendTo(slices.Grow(buf, e.Len(d)), d), degraded
}

// sampling are the parameters of how a model draws its words, and the values that say nothing.
var sampling = [...]struct{ key, usual string }{
	{"temperature", "1"}, {"top_p", "1"}, {"presence_penalty", "0"}, {"frequency_penalty", "0"},
}

// usual tells whether a number's text is the usual value.
func usual(text, value string) bool { return strings.TrimSuffix(text, ".0") == value }

// dropSampling takes out what the model would refuse, and names it.
func dropSampling(e *jsonx.Edits, d *jsonx.Doc) (lost []string) {
	for _, s := range sampling {
		if v := d.Get(s.key); !v.IsNull() && !usual(string(v.Raw), s.usual) {
			e.Delete(d, s.key)
			lost = append(lost, s.key)
		}
	}
	return lost
}

// renameTokens says the length limit under the name that the provider wants; when both are there, the wanted one stays.
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

// askUsage writes stream_options anew, with include_usage and what else the client says there: what is charged rests on it.
func askUsage(e *jsonx.Edits, d *jsonx.Doc) {
	const usage = "include_usage"
	options := wire.WithMembers(d.Get("stream_options"), func(key string) bool { return key == usage }, wire.Member{Key: usage, JSON: []byte("true")})
	e.Set(d, "stream_options", options)
}
