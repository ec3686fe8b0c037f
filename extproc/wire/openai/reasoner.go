package openai

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// reasoners are the families of OpenAI's models that reason, by how their names begin; the first that fits counts. They refuse
// max_tokens and, unless told not to reason, sampling parameters, and each takes its own efforts. Other models refuse
// reasoning_effort.
var reasoners = []struct {
	family  string
	efforts []string // nil: whatever comes
	not     bool     // the family does not reason, though its name says so
}{
	{family: "gpt-5-chat", not: true},
	{family: "gpt-5-pro", efforts: []string{"high"}},
	{family: "gpt-5-codex", efforts: []string{"low", "medium", "high"}},
	{family: "gpt-5.1", efforts: []string{"none", "low", "medium", "high"}},
	{family: "gpt-5.", efforts: []string{"none", "low", "medium", "high", "xhigh"}},
	{family: "gpt-5", efforts: []string{"minimal", "low", "medium", "high"}},
	{family: "o1", efforts: []string{"low", "medium", "high"}},
	{family: "o3", efforts: []string{"low", "medium", "high"}},
	{family: "o4", efforts: []string{"low", "medium", "high"}},
}

// Reasoner tells whether a model of OpenAI's reasons, and the efforts that it takes. The catalog's word counts more than its
// name. A vendor before the name ("openai/gpt-5") does not matter.
func Reasoner(to policy.Resolution, model string) (efforts []string, ok bool) {
	if len(to.Efforts) > 0 {
		return to.Efforts, true
	}
	name := model[strings.LastIndexByte(model, '/')+1:]
	for _, r := range reasoners {
		if strings.HasPrefix(name, r.family) {
			return r.efforts, !r.not
		}
	}
	return nil, false
}

// OfOpenAI sets what OpenAI's own models want, whoever serves them: an effort for those that reason, and no sampling beside it; no
// more than four stop sequences. Model is set already.
func (o *RequestOptions) OfOpenAI(req *chat.Request, to policy.Resolution) {
	efforts, reasons := Reasoner(to, o.Model)
	o.MaxStop = maxStop
	o.NoEffort, o.Efforts, o.FixedByThinking = !reasons, efforts, reasons
	o.FixedSampling = to.FixedSampling
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
