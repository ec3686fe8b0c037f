package openai

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// OfOpenAI sets what OpenAI's own models want, whoever serves them: an effort for those that reason, and no sampling beside it; no
// more than four stop sequences. Which ones reason, and the efforts that each takes, the catalog says.
func (o *RequestOptions) OfOpenAI(req *chat.Request, to policy.Resolution) {
	reasons := to.Control == policy.ControlEffort // others refuse reasoning_effort; these refuse max_tokens
	o.MaxStop = maxStop
	o.NoEffort, o.Efforts, o.FixedByThinking = !reasons, to.Efforts, reasons
	o.FixedSampling = to.FixedSampling
	if to.Without.Effort { // what leaves it out is an effort of the model's own to some
		o.NoEffort = true
		o.Members = append(o.Members, Member{Key: keyEffort, Value: jsonx.Raw(`"` + effortNone + `"`)})
	}
	if reasons || to.FixedSampling || req.Dialect != chat.OpenAI {
		o.TokensField = MaxCompletionTokens
	}
}

// maxStop is how many stop sequences OpenAI's models take.
const maxStop = 4

// Control sets how a model is told how hard to think by its own vendor, or by a server of the operator's: as the catalog says of it,
// else as is usual there.
func (o *RequestOptions) Control(c policy.ReasoningControl, usual ReasoningStyle) {
	o.Broker(c, usual)
	switch c {
	case policy.ControlEffort:
		o.Reasoning = ReasoningEffort
	case policy.ControlLevel:
		o.Reasoning = ThinkingLevel
	case policy.ControlTemplate:
		o.Reasoning = TemplateThinking
	case policy.ControlSlash:
		o.Reasoning = SlashThinking
	default: // what is on or off, and what has a budget, is so in the vendor's own way
	}
}

// Broker is Control for providers that serve models of many vendors: they have one way, where the model has any.
func (o *RequestOptions) Broker(c policy.ReasoningControl, usual ReasoningStyle) {
	o.Reasoning = usual
	switch c {
	case policy.ControlNone:
		o.Reasoning = PromptedReasoning
	case policy.ControlAlways:
		o.Reasoning, o.NoEffort = AlwaysThinking, true
	default: // is the provider's business
	}
}

// WithNone are efforts and none at all, which providers of OpenRouter's object know of every model; nil stays nil.
func WithNone(efforts []string) []string {
	if efforts == nil || slices.Contains(efforts, effortNone) {
		return efforts
	}
	return append([]string{effortNone}, efforts...)
}
