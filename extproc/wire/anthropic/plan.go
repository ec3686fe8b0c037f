package anthropic

import (
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
)

// minBudget is the API's minimum thinking budget in tokens.
const minBudget = 1024

// minTopP is the API's minimum of top_p with thinking.
const minTopP = 0.95

// plan resolves parameters that depend on each other: the limit of the answer, thinking, and what the API refuses in combination. The
// client's parameters override its profile's defaults, and locked ones of a profile override the client's.
type plan struct {
	opts            *RequestOptions
	own             chat.Params // the client's
	requested       int         // limit of the answer, set by the client or its profile; 0: none
	prefilled       bool        // the client started the answer
	withoutThinking bool        // the model is in a turn that uses tools and does not start with thinking
	// keepsOwn is set if the client's own members stay unchanged, unless its profile changes them.
	keepsOwn  bool
	degrade   func(name string)
	degradeAs func(word string) // for names that are not canonical

	byProfile bool // the profile sets the effort of thinking
	mayPrompt bool // the prompt may express what no parameter can
	locked    bool // the profile overrides the client

	maxTokens int
	budget    int  // thinking budget in tokens; 0: none
	adaptive  bool // thinking without a budget
	off       bool // thinking is disabled explicitly
	effort    string
	sampling  chat.Params
	choice    chat.ToolChoice
	guidance  string // text for the system prompt in place of a parameter
}

// resolve computes the plan. choice is the client's tool choice.
func (p *plan) resolve(profile *chat.Profile, choice chat.ToolChoice) {
	merged, overridden := profile.Over(p.own)
	p.sampling, p.choice = merged, choice
	p.byProfile = merged.Effort != p.own.Effort || merged.ThinkingBudget != p.own.ThinkingBudget || merged.Thinking != p.own.Thinking
	p.mayPrompt = profile.Guides(&p.own)
	p.locked = p.byProfile && profile.Locked.Effort != ""
	for _, name := range overridden {
		p.degrade(name)
	}
	if p.requested == 0 && profile != nil {
		p.requested = profile.MaxTokens
	}
	p.limit()
	if p.keepsOwn && !p.byProfile {
		p.adaptive = merged.ThinkingBudget > 0 || merged.Thinking == chat.ThinkingAdaptive
		p.resolveSampling()
		p.dropConflicts()
		if p.opts.alwaysThinks() {
			p.relaxChoice()
		}
		return
	}
	p.thinking()
	p.resolveSampling()
	p.dropConflicts()
	if p.thinks() || p.opts.alwaysThinks() {
		p.relaxChoice()
	}
}

// relaxChoice drops the requirement to use a tool, which the API refuses with thinking.
func (p *plan) relaxChoice() {
	if p.forced() {
		p.degrade("tool_choice")
		p.choice = chat.ToolChoice{}
	}
}

// forced reports whether the model is required to use a tool.
func (p *plan) forced() bool { return p.choice.Mode == chat.ToolAny || p.choice.Mode == chat.ToolNamed }

func (p *plan) thinks() bool { return p.adaptive || p.budget > 0 }

func (p *plan) limit() {
	p.maxTokens = p.requested
	if limit := p.opts.MaxOutput; limit > 0 && p.maxTokens > limit && !p.keepsOwn {
		p.degrade("max_tokens")
		p.maxTokens = limit
	}
	if p.maxTokens == 0 {
		p.maxTokens = p.opts.MaxOutput
	}
	if p.maxTokens == 0 {
		p.maxTokens = defaultMaxTokens
	}
}

// efforts maps the client's efforts to the API's; "" for no equivalent.
var efforts = map[string]string{"minimal": "", "low": "low", "medium": "medium", "high": "high", "xhigh": "", "max": "max"}

func (p *plan) thinking() {
	wanted := &p.sampling
	word, known := efforts[wanted.Effort]
	budget := wanted.ThinkingBudget
	if budget == 0 {
		budget = wire.Budgets[wanted.Effort]
	}
	if budget == 0 && wanted.Thinking == chat.ThinkingAdaptive {
		budget = wire.Budgets["medium"]
	}
	switch {
	case p.opts.NoThinking:
		p.askInPrompt(budget)
	case wanted.Effort == effortNone, wanted.Thinking == chat.ThinkingOff:
		p.disableThinking()
	case budget == 0:
		if wanted.Effort != "" {
			p.degradeEffort("")
		}
	case p.byProfile && !p.locked && p.forbids(): // the client's own parameters override a default
		p.degradeEffort("")
	case p.prefilled, !p.opts.Adaptive && p.withoutThinking:
		p.degradeEffort("")
	case p.opts.Adaptive:
		p.adaptive = true
		p.effort = p.chooseEffort(known, word, budget)
	default:
		if wanted.ThinkingBudget > 0 && wanted.Effort != "" {
			p.degradeEffort("")
		}
		p.fitBudget(max(budget, minBudget))
	}
}

// forbids reports whether the client itself sets what the API refuses with thinking.
func (p *plan) forbids() bool {
	if p.opts.FixedSampling { // it is dropped anyway
		return p.forced()
	}
	return p.forced() || p.own.TopK != "" ||
		p.own.Temperature != "" && wire.Float(p.own.Temperature) != 1 || p.own.TopP != "" && wire.Float(p.own.TopP) < minTopP
}

// askInPrompt requests thinking in the prompt, for a model without a parameter for it, if the profile allows that.
func (p *plan) askInPrompt(budget int) {
	switch {
	case p.byProfile && !p.mayPrompt:
		p.degradeEffort("")
	case p.byProfile:
		if p.guidance = wire.ReasoningGuidance(p.sampling.Effort); p.guidance != "" {
			p.degradeEffort("prompt")
			return
		}
		p.degradeEffort("")
	case p.sampling.Effort != "" && p.sampling.Effort != "none":
		p.degrade("effort")
	case budget > 0:
		p.degrade("thinking")
	}
}

// degradeEffort names an effort that is not sent as requested. A profile's is named with its replacement.
func (p *plan) degradeEffort(instead string) {
	if p.byProfile {
		p.degradeAs(wire.Replaced("reasoning_effort", p.sampling.Effort, instead))
		return
	}
	p.degrade("effort")
}

// disableThinking disables thinking: explicitly for a model that thinks by default. A model that always thinks gets its lowest effort.
func (p *plan) disableThinking() {
	p.degradeThinking()
	switch {
	case p.opts.alwaysThinks():
		p.adaptive, p.effort = true, p.effortAtMost(effortOrder[0])
		if p.sampling.Effort == effortNone {
			p.degradeEffort(p.effort)
		} else {
			p.degrade("thinking")
		}
	case p.opts.Adaptive && p.opts.Thinks == policy.ThinksByDefault:
		p.off = true
	}
}

// degradeThinking names the thinking parameters of a request that is sent without thinking.
func (p *plan) degradeThinking() {
	if p.sampling.ThinkingBudget > 0 {
		p.degrade("budget_tokens")
	}
	if p.sampling.Effort != "" && p.sampling.Effort != effortNone {
		p.degrade("effort")
	}
}

// chooseEffort returns the effort for a model without budgets: the client's own, the nearest one of the model's, or the equivalent of the
// budget.
func (p *plan) chooseEffort(known bool, word string, budget int) string {
	wanted := &p.sampling
	if known && wanted.ThinkingBudget > 0 {
		p.degrade("budget_tokens")
	}
	if wanted.Effort == "" && wanted.ThinkingBudget == 0 { // the model decides
		return ""
	}
	if slices.Contains(p.opts.Efforts, wanted.Effort) {
		return wanted.Effort
	}
	if word == "" {
		word = wire.EffortOf(budget)
	}
	if len(p.opts.Efforts) > 0 {
		word = p.effortAtMost(word)
	}
	if wanted.Effort != "" && wanted.Effort != word {
		p.degradeEffort(word)
	}
	return word
}

// effortNone is the clients' name for no thinking. The API has none.
const effortNone = "none"

// effortOrder are the API's efforts in ascending order.
var effortOrder = []string{"low", "medium", "high", "xhigh", "max"}

// effortAtMost returns the highest of the model's efforts that does not exceed word, or its lowest.
func (p *plan) effortAtMost(word string) string {
	for i := slices.Index(effortOrder, word); i >= 0; i-- {
		if slices.Contains(p.opts.Efforts, effortOrder[i]) {
			return effortOrder[i]
		}
	}
	if len(p.opts.Efforts) > 0 {
		return p.opts.Efforts[0]
	}
	return word
}

// fitBudget makes room for a budget. The budget counts towards the limit of the answer, so the limit is raised if the client set one and
// the model allows more. A larger budget is reduced to what the raised limit adds to the client's, or to half of the limit; below the
// minimum, thinking is disabled.
func (p *plan) fitBudget(budget int) {
	if p.requested > 0 && p.opts.MaxOutput > 0 {
		p.maxTokens = max(p.maxTokens, min(p.maxTokens+budget, p.opts.MaxOutput))
	}
	limit := p.maxTokens - min(p.requested, p.maxTokens)
	if limit < minBudget || p.requested == 0 {
		limit = max(minBudget, p.maxTokens/2)
	}
	if budget >= p.maxTokens || p.requested > 0 && p.opts.MaxOutput > 0 && budget > limit {
		budget = limit
		instead := ""
		if budget < p.maxTokens {
			instead = "budget_tokens:" + strconv.Itoa(budget)
		}
		p.degradeEffort(instead)
	}
	if budget < p.maxTokens {
		p.budget = budget
	}
}

// resolveSampling resolves the sampling parameters, before the API's rules about combinations.
func (p *plan) resolveSampling() {
	s := &p.sampling
	if p.opts.FixedSampling {
		for _, n := range [...]struct {
			name        string
			own, wanted *string
		}{{"temperature", &p.own.Temperature, &s.Temperature}, {"top_p", &p.own.TopP, &s.TopP}, {"top_k", &p.own.TopK, &s.TopK}} {
			if *n.wanted != "" && (!p.keepsOwn || *n.own != *n.wanted) && (n.name != "top_k" || *n.own != "") {
				p.drop(n.wanted, n.name, wire.Float(*n.wanted) != 1)
			}
		}
	}
	room := s.Temperature == ""
	if p.thinks() {
		room = s.MinP != "" && 1-wire.Float(s.MinP) >= minTopP
	}
	var degraded []string
	*s, degraded = wire.ApproximateSampling(p.own, *s, !p.thinks() && !p.opts.FixedSampling, false, room && !p.opts.FixedSampling)
	for _, name := range degraded {
		p.degradeAs(name)
	}
}

// dropConflicts drops parameters that the API refuses with thinking or with each other. Of two, the client's own stays.
func (p *plan) dropConflicts() {
	s := &p.sampling
	temperature, topP := wire.Float(s.Temperature), wire.Float(s.TopP)
	switch {
	case s.Temperature != "" && p.thinks():
		p.drop(&s.Temperature, "temperature", temperature != 1)
	case temperature > 1 && s.Temperature != p.own.Temperature:
		p.degradeAs(wire.Replaced("temperature", s.Temperature, "1"))
		s.Temperature = "1"
	case temperature > 1 && !p.keepsOwn:
		p.degrade("temperature")
		s.Temperature = "1"
	}
	ownTopP := p.own.TopP != "" && s.TopP == p.own.TopP
	switch {
	case s.TopP == "", ownTopP && p.keepsOwn && p.own.Temperature != "" && !p.thinks():
	case topP == 1 && !p.keepsOwn:
		s.TopP = ""
	case s.Temperature != "" && ownTopP && p.own.Temperature == "" && !p.locked:
		p.drop(&s.Temperature, "temperature", true)
	case s.Temperature != "", p.thinks() && topP < minTopP:
		p.drop(&s.TopP, "top_p", topP != 1)
	}
	if p.thinks() && s.TopK != "" {
		p.drop(&s.TopK, "top_k", true)
	}
}

// drop removes a parameter, and names it as degraded if matters is set.
func (p *plan) drop(param *string, name string, matters bool) {
	*param = ""
	if matters {
		p.degrade(name)
	}
}

// reportUnsupported names the profile's parameters that this API lacks. Cache keys are not named: they do not affect the answer.
func (p *plan) reportUnsupported() {
	s, own := &p.sampling, &p.own
	if s.Predicted != own.Predicted {
		p.degradeAs("predicted_output")
	}
	if s.Seed != own.Seed {
		p.degradeAs("seed")
	}
	if s.PresencePenalty != own.PresencePenalty && wire.Float(s.PresencePenalty) != 0 {
		p.degradeAs("presence_penalty")
	}
	if s.FrequencyPenalty != own.FrequencyPenalty && wire.Float(s.FrequencyPenalty) != 0 {
		p.degradeAs("frequency_penalty")
	}
	if s.WebSearch != nil && *s.WebSearch {
		p.degradeAs("web_search")
	}
	if s.TEE {
		p.degradeAs("tee_mode")
	}
}
