package openai

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// ForHost returns the options of a provider that serves models of many vendors in this format, without a vendor's own extensions. style is how thinking is
// controlled for models that the catalog does not describe.
func ForHost(to *policy.Resolution, style ReasoningStyle) RequestOptions {
	o := RequestOptions{
		Model: cmp.Or(to.Upstream, string(to.Model)), FixedSampling: to.FixedSampling, Efforts: to.Efforts, NoDetails: true, Video: slices.Contains(to.Features, policy.Video),
		Extras: StrictExtras,
	}
	if to.Without.Thinking {
		o.ReasoningContent = NoReasoningContent
	}
	o.Control(to.Control, style)
	return o
}

// ForOpenAIModels sets the rules of OpenAI's own models, at any provider: an effort for those that reason, and no sampling parameters with
// it; at most four stop sequences. The catalog lists which models reason, and which efforts they accept.
func (o *RequestOptions) ForOpenAIModels(req *chat.Request, to policy.Resolution) {
	reasons := to.Control == policy.ControlEffort // other models refuse reasoning_effort; these refuse max_tokens
	o.MaxStop = maxStop
	o.NoEffort, o.Efforts, o.FixedByThinking = !reasons, to.Efforts, reasons
	o.FixedSampling = to.FixedSampling
	if to.Without.Effort { // some models have a default effort, so omitting it would not disable thinking
		o.NoEffort = true
		o.Members = append(o.Members, Member{Key: keyEffort, Value: jsonx.Raw(`"` + effortNone + `"`)})
	}
	if reasons || to.FixedSampling || req.Dialect != chat.OpenAI {
		o.TokensField = MaxCompletionTokens
	}
}

// maxStop is the maximum number of stop sequences of OpenAI's models.
const maxStop = 4

// Control sets how thinking is controlled at a model's own vendor, or at the operator's server: by the catalog, else by defaultStyle.
func (o *RequestOptions) Control(c policy.ReasoningControl, defaultStyle ReasoningStyle) {
	o.Broker(c, defaultStyle)
	switch c {
	case policy.ControlEffort:
		o.Reasoning = ReasoningEffort
	case policy.ControlLevel:
		o.Reasoning = ThinkingLevel
	case policy.ControlTemplate:
		o.Reasoning = TemplateThinking
	case policy.ControlSlash:
		o.Reasoning = SlashThinking
	default: // switches and budgets are controlled in the vendor's own way
	}
}

// Broker is Control for providers that serve models of many vendors, which have one way of controlling thinking for all models that support
// it.
func (o *RequestOptions) Broker(c policy.ReasoningControl, defaultStyle ReasoningStyle) {
	o.Reasoning = defaultStyle
	switch c {
	case policy.ControlNone:
		o.Reasoning = PromptedReasoning
	case policy.ControlAlways:
		o.Reasoning, o.NoEffort = AlwaysThinking, true
	default: // the provider's own way
	}
}

// WithNone adds "none" to efforts: providers of OpenRouter's object accept it for every model. nil stays nil.
func WithNone(efforts []string) []string {
	if efforts == nil || slices.Contains(efforts, effortNone) {
		return efforts
	}
	return append([]string{effortNone}, efforts...)
}
