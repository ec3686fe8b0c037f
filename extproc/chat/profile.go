package chat

import (
	"slices"
	"strings"
	"time"
)

// Profile is the inference parameters that the gateway adds to a request for its subsystem. It is computed once per request and read-only
// afterwards; each provider's encoder maps what its format supports.
type Profile struct {
	Subsystem string // as the client named it
	Role      string // persona of the model, "" for none

	// Preferences for providers that choose a model themselves.
	Quality         string        // requested quality class, minimum to maximum; "" if none
	CostSensitivity float64       // weight of the cost, 0 to 1
	MaxLatency      time.Duration // until the first content; 0: no matter
	Confidential    bool          // the prompt must not be retained or used for training

	// NoGuidance is set if the reasoning effort comes from neither a profile of the subsystem nor the client's, such as from the requested quality:
	// then it is only sent as a parameter and never added to a prompt. See Guides.
	NoGuidance bool

	Default   Params // used where the client sets nothing
	Locked    Params // overrides the client
	MaxTokens int    // used where the client sets none; 0 means none
}

// examining are the prefixes of subsystems that examine how the model reached its answer: all of dream and death.
var examining = []string{"dream", "death", "daimon_complex"}

// ExaminesReasoning reports whether the subsystem examines how the model reached its answer.
func (p *Profile) ExaminesReasoning() bool {
	return slices.ContainsFunc(examining, func(prefix string) bool { return strings.HasPrefix(p.Subsystem, prefix) })
}

// Over merges the profile with the client's own parameters and returns the names of the client's parameters that it overrode, in a fixed order.
// A nil profile changes nothing. Effort, budget and mode of reasoning are one unit: a client that sets one of them keeps all three.
func (p *Profile) Over(own Params) (effective Params, overridden []string) {
	if p == nil {
		return own, nil
	}
	effective = own
	fill(&effective, &p.Default)
	for _, f := range textParams {
		if locked := *f.at(&p.Locked); locked != "" {
			if was := *f.at(&own); was != "" && was != locked {
				overridden = append(overridden, f.name)
			}
			*f.at(&effective) = locked
		}
	}
	if p.Locked.setsReasoning() {
		if own.setsReasoning() && !own.sameReasoning(&p.Locked) {
			overridden = append(overridden, "effort")
		}
		effective.Effort, effective.ThinkingBudget, effective.Thinking = p.Locked.Effort, p.Locked.ThinkingBudget, p.Locked.Thinking
	}
	return effective, overridden
}

// Guides reports whether the reasoning effort may be added to the prompt of a model that has no parameter for it: only if it comes from the
// profile and not from the client's parameters (own).
func (p *Profile) Guides(own *Params) bool {
	return p != nil && !p.NoGuidance && (p.Locked.setsReasoning() || !own.setsReasoning() && p.Default.setsReasoning())
}

// setsReasoning reports whether any reasoning parameter is set.
func (p *Params) setsReasoning() bool {
	return p.Effort != "" || p.ThinkingBudget > 0 || p.Thinking != ThinkingUnset
}

func (p *Params) sameReasoning(q *Params) bool {
	return p.Effort == q.Effort && p.ThinkingBudget == q.ThinkingBudget && p.Thinking == q.Thinking
}

// textParam is a parameter with a single text value.
type textParam struct {
	name string
	at   func(*Params) *string
}

// textParams are the parameters with a single text value, by Anthropic's or OpenAI's name.
var textParams = []textParam{
	{"temperature", func(p *Params) *string { return &p.Temperature }},
	{"top_p", func(p *Params) *string { return &p.TopP }},
	{"top_k", func(p *Params) *string { return &p.TopK }},
	{"min_p", func(p *Params) *string { return &p.MinP }},
	{"presence_penalty", func(p *Params) *string { return &p.PresencePenalty }},
	{"frequency_penalty", func(p *Params) *string { return &p.FrequencyPenalty }},
	{"seed", func(p *Params) *string { return &p.Seed }},
	{"prompt_cache_key", func(p *Params) *string { return &p.CacheKey }},
	{"prediction", func(p *Params) *string { return &p.Predicted }},
}

// fill sets the parameters that are not set to those of d.
func fill(into, d *Params) {
	for _, f := range textParams {
		if at := f.at(into); *at == "" {
			*at = *f.at(d)
		}
	}
	if !into.setsReasoning() {
		into.Effort, into.ThinkingBudget, into.Thinking = d.Effort, d.ThinkingBudget, d.Thinking
	}
	if len(into.Schema) == 0 && !into.JSONMode && len(d.Schema) > 0 {
		into.Schema, into.SchemaName, into.SchemaNote = d.Schema, d.SchemaName, d.SchemaNote
	}
	if into.Stop == nil {
		into.Stop = slices.Clone(d.Stop)
	}
	if into.Visible == nil {
		into.Visible = d.Visible
	}
	if into.WebSearch == nil {
		into.WebSearch = d.WebSearch
	}
	into.MarkCache = into.MarkCache || d.MarkCache
	into.TEE = into.TEE || d.TEE
}
