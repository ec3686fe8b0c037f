package chat

import (
	"slices"
	"time"
)

// Profile is what the gateway says in a request for its client: how a part of an agent wants its answers made. It is worked out once
// per request and read-only from then on; each provider's format says of it what it can.
type Profile struct {
	Subsystem string // the part of the agent, as it was named
	Role      string // whose manner the model takes on, "" for none

	// What a provider that has a choice of its own should look at.
	Quality         string        // the class of model that was asked for, minimum to maximum; "" if none was
	CostSensitivity float64       // how much the cost matters, 0 to 1
	MaxLatency      time.Duration // until the first content; 0: no matter
	Confidential    bool          // nobody may keep the prompt, or learn from it

	// NoGuidance is set where how hard to think follows from something else than a subsystem's profile or the caller's own, such as the
	// quality that is asked for: then it is a parameter or nothing, and never written into a prompt. See Guides.
	NoGuidance bool

	Default   Params // stands where the client says nothing
	Locked    Params // stands over what the client says
	MaxTokens int    // where the client says nothing; 0: not said
}

// Over is what a request says when the profile stands behind the client's own parameters, and the names of those of the client's that
// it overrode, in a fixed order. A nil profile changes nothing. What is said about thinking goes together: a client that named
// an effort, a budget or a mode keeps all three.
func (p *Profile) Over(own Params) (said Params, overridden []string) {
	if p == nil {
		return own, nil
	}
	said = own
	fill(&said, &p.Default)
	for _, f := range texts {
		if locked := *f.at(&p.Locked); locked != "" {
			if was := *f.at(&own); was != "" && was != locked {
				overridden = append(overridden, f.name)
			}
			*f.at(&said) = locked
		}
	}
	if p.Locked.thinks() {
		if own.thinks() && !own.thinksLike(&p.Locked) {
			overridden = append(overridden, "effort")
		}
		said.Effort, said.ThinkingBudget, said.Thinking = p.Locked.Effort, p.Locked.ThinkingBudget, p.Locked.Thinking
	}
	return said, overridden
}

// Guides reports whether how hard to think may be written into the prompt of a model that has no parameter for it: the profile says it,
// and not the client, whose parameters never add words to a prompt. own is what the client says.
func (p *Profile) Guides(own *Params) bool {
	return p != nil && !p.NoGuidance && (p.Locked.thinks() || !own.thinks() && p.Default.thinks())
}

// thinks reports whether anything is said about how much to think.
func (p *Params) thinks() bool {
	return p.Effort != "" || p.ThinkingBudget > 0 || p.Thinking != ThinkingUnsaid
}

func (p *Params) thinksLike(q *Params) bool {
	return p.Effort == q.Effort && p.ThinkingBudget == q.ThinkingBudget && p.Thinking == q.Thinking
}

// text is a parameter that is one text.
type text struct {
	name string
	at   func(*Params) *string
}

// texts are the parameters that are one text each, by the names that Anthropic or OpenAI give them.
var texts = []text{
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

// fill puts into said what it does not say.
func fill(said, d *Params) {
	for _, f := range texts {
		if at := f.at(said); *at == "" {
			*at = *f.at(d)
		}
	}
	if !said.thinks() {
		said.Effort, said.ThinkingBudget, said.Thinking = d.Effort, d.ThinkingBudget, d.Thinking
	}
	if len(said.Schema) == 0 && !said.JSONMode && len(d.Schema) > 0 {
		said.Schema, said.SchemaName, said.SchemaNote = d.Schema, d.SchemaName, d.SchemaNote
	}
	if said.Stop == nil {
		said.Stop = slices.Clone(d.Stop)
	}
	if said.Visible == nil {
		said.Visible = d.Visible
	}
	if said.WebSearch == nil {
		said.WebSearch = d.WebSearch
	}
	said.MarkCache = said.MarkCache || d.MarkCache
	said.TEE = said.TEE || d.TEE
}
