package anthropic

import (
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
)

// minBudget is the smallest thinking budget that the API takes, in tokens.
const minBudget = 1024

// minTopP is the least top_p that the API takes beside thinking.
const minTopP = 0.95

// plan settles what depends on each other: the answer's limit, the thinking, and what may not stand beside it. The client's own word
// stands over what its profile says by default, and a locked profile over both.
type plan struct {
	opts  *RequestOptions
	own   chat.Params // what the client says
	asked int         // the limit that the client or its profile set; 0: none
	begun bool        // an answer is begun for the model
	bare  bool        // the model is in the middle of a turn that did not begin with thinking
	// keepsOwn is set where the client's own members stay as they came, unless its profile changes them.
	keepsOwn bool
	lose     func(name string)
	name     func(word string) // as it is

	profiled bool // the profile says how hard to think
	guides   bool // and what no parameter can say may be written into the prompt
	locked   bool // the profile stands over the client

	maxTokens int
	budget    int  // of thinking, in tokens; 0: no thinking with a budget
	adaptive  bool // thinking without a budget
	off       bool // the model is told not to think
	effort    string
	sampling  chat.Params
	choice    chat.ToolChoice
	words     string // for the system prompt, where the model has no parameter for them
}

// settle works the plan out. choice is the client's.
func (p *plan) settle(profile *chat.Profile, choice chat.ToolChoice) {
	said, overridden := profile.Over(p.own)
	p.sampling, p.choice = said, choice
	p.profiled = said.Effort != p.own.Effort || said.ThinkingBudget != p.own.ThinkingBudget || said.Thinking != p.own.Thinking
	p.guides = profile.Guides(&p.own)
	p.locked = p.profiled && profile.Locked.Effort != ""
	for _, name := range overridden {
		p.lose(name)
	}
	if p.asked == 0 && profile != nil {
		p.asked = profile.MaxTokens
	}
	p.limit()
	if p.keepsOwn && !p.profiled {
		p.adaptive = said.ThinkingBudget > 0 || said.Thinking == chat.ThinkingAdaptive
		p.draw()
		p.exclusive()
		if p.opts.alwaysThinks() {
			p.free()
		}
		return
	}
	p.thinking()
	p.draw()
	p.exclusive()
	if p.thinks() || p.opts.alwaysThinks() {
		p.free()
	}
}

// free takes back that the model must use a tool, which the API refuses beside thinking.
func (p *plan) free() {
	if p.forced() {
		p.lose("tool_choice")
		p.choice = chat.ToolChoice{}
	}
}

// forced reports whether the model must use a tool.
func (p *plan) forced() bool { return p.choice.Mode == chat.ToolAny || p.choice.Mode == chat.ToolNamed }

func (p *plan) thinks() bool { return p.adaptive || p.budget > 0 }

func (p *plan) limit() {
	p.maxTokens = p.asked
	if limit := p.opts.MaxOutput; limit > 0 && p.maxTokens > limit && !p.keepsOwn {
		p.lose("max_tokens")
		p.maxTokens = limit
	}
	if p.maxTokens == 0 {
		p.maxTokens = p.opts.MaxOutput
	}
	if p.maxTokens == 0 {
		p.maxTokens = defaultMaxTokens
	}
}

// efforts are the API's efforts, by the caller's words; "" where it has none of its own.
var efforts = map[string]string{"minimal": "", "low": "low", "medium": "medium", "high": "high", "xhigh": "", "max": "max"}

func (p *plan) thinking() {
	said := &p.sampling
	word, known := efforts[said.Effort]
	budget := said.ThinkingBudget
	if budget == 0 {
		budget = wire.Budgets[said.Effort]
	}
	if budget == 0 && said.Thinking == chat.ThinkingAdaptive {
		budget = wire.Budgets["medium"]
	}
	switch {
	case p.opts.NoThinking:
		p.inWords(budget)
	case said.Effort == effortNone, said.Thinking == chat.ThinkingOff:
		p.dontThink()
	case budget == 0:
		if said.Effort != "" {
			p.loseEffort("")
		}
	case p.profiled && !p.locked && p.forbids(): // the client's own word counts more than a default
		p.loseEffort("")
	case p.begun, !p.opts.Adaptive && p.bare:
		p.loseEffort("")
	case p.opts.Adaptive:
		p.adaptive = true
		p.effort = p.word(known, word, budget)
	default:
		if said.ThinkingBudget > 0 && said.Effort != "" {
			p.loseEffort("")
		}
		p.fitBudget(max(budget, minBudget))
	}
}

// forbids reports whether the client itself says what may not stand beside thinking.
func (p *plan) forbids() bool {
	if p.opts.FixedSampling { // it goes anyway
		return p.forced()
	}
	return p.forced() || p.own.TopK != "" ||
		p.own.Temperature != "" && number(p.own.Temperature) != 1 || p.own.TopP != "" && number(p.own.TopP) < minTopP
}

// inWords asks a model in its prompt that does not think by any parameter, where a profile says so.
func (p *plan) inWords(budget int) {
	switch {
	case p.profiled && !p.guides:
		p.loseEffort("")
	case p.profiled:
		if p.words = wire.ReasoningGuidance(p.sampling.Effort); p.words != "" {
			p.loseEffort("prompt")
			return
		}
		p.loseEffort("")
	case p.sampling.Effort != "" && p.sampling.Effort != "none":
		p.lose("effort")
	case budget > 0:
		p.lose("thinking")
	}
}

// loseEffort names an effort that is not what was said. What a profile said is named with what became of it.
func (p *plan) loseEffort(instead string) {
	if p.profiled {
		p.name(wire.Became("reasoning_effort", p.sampling.Effort, instead))
		return
	}
	p.lose("effort")
}

// dontThink switches thinking off. A model that thinks unless it is told not to is told so, and one that always thinks is told to think
// as little as it can.
func (p *plan) dontThink() {
	p.loseThinking()
	switch {
	case p.opts.alwaysThinks():
		p.adaptive, p.effort = true, p.atMost(ladder[0])
		if p.sampling.Effort == effortNone {
			p.loseEffort(p.effort)
		} else {
			p.lose("thinking")
		}
	case p.opts.Adaptive && p.opts.Thinks == policy.ThinksUnlessTold:
		p.off = true
	}
}

// loseThinking names what was said about thinking that is switched off.
func (p *plan) loseThinking() {
	if p.sampling.ThinkingBudget > 0 {
		p.lose("budget_tokens")
	}
	if p.sampling.Effort != "" && p.sampling.Effort != effortNone {
		p.lose("effort")
	}
}

// word is the effort for a model that takes no budget: the caller's own, the nearest one of the model's, or what the
// budget amounts to.
func (p *plan) word(known bool, word string, budget int) string {
	said := &p.sampling
	if known && said.ThinkingBudget > 0 {
		p.lose("budget_tokens")
	}
	if said.Effort == "" && said.ThinkingBudget == 0 { // the model decides
		return ""
	}
	if slices.Contains(p.opts.Efforts, said.Effort) {
		return said.Effort
	}
	if word == "" {
		word = effortOf(budget)
	}
	if len(p.opts.Efforts) > 0 {
		word = p.atMost(word)
	}
	if said.Effort != "" && said.Effort != word {
		p.loseEffort(word)
	}
	return word
}

// effortNone is the word of callers for no thinking. The API has none for it.
const effortNone = "none"

// ladder are the API's efforts, from the least.
var ladder = []string{"low", "medium", "high", "xhigh", "max"}

// atMost is the highest of the model's efforts that is not above one, or its least.
func (p *plan) atMost(word string) string {
	for i := slices.Index(ladder, word); i >= 0; i-- {
		if slices.Contains(p.opts.Efforts, ladder[i]) {
			return ladder[i]
		}
	}
	if len(p.opts.Efforts) > 0 {
		return p.opts.Efforts[0]
	}
	return word
}

// effortOf is the effort that a budget of thinking tokens amounts to.
func effortOf(budget int) string {
	const low, medium = 2048, 8192
	switch {
	case budget <= low:
		return "low"
	case budget <= medium:
		return "medium"
	}
	return "high"
}

// fitBudget makes room for a budget: it counts against the answer's limit, so the limit is raised where the caller set one and the model
// allows more. Where it does not, the budget shrinks to what the caller's own limit leaves of the model's, else to half; too small a one
// is none.
func (p *plan) fitBudget(budget int) {
	if p.asked > 0 && p.opts.MaxOutput > 0 {
		p.maxTokens = max(p.maxTokens, min(p.maxTokens+budget, p.opts.MaxOutput))
	}
	most := p.maxTokens - min(p.asked, p.maxTokens)
	if most < minBudget || p.asked == 0 {
		most = max(minBudget, p.maxTokens/2)
	}
	if budget >= p.maxTokens || p.asked > 0 && p.opts.MaxOutput > 0 && budget > most {
		budget = most
		instead := ""
		if budget < p.maxTokens {
			instead = "budget_tokens:" + strconv.Itoa(budget)
		}
		p.loseEffort(instead)
	}
	if budget < p.maxTokens {
		p.budget = budget
	}
}

// draw settles how the model draws its words, before the rules of what may stand together.
func (p *plan) draw() {
	s := &p.sampling
	if p.opts.FixedSampling {
		for _, n := range [...]struct {
			name      string
			own, said *string
		}{{"temperature", &p.own.Temperature, &s.Temperature}, {"top_p", &p.own.TopP, &s.TopP}, {"top_k", &p.own.TopK, &s.TopK}} {
			if *n.said != "" && (!p.keepsOwn || *n.own != *n.said) && (n.name != "top_k" || *n.own != "") {
				p.drop(n.said, n.name, number(*n.said) != 1)
			}
		}
	}
	room := s.Temperature == ""
	if p.thinks() {
		room = s.MinP != "" && 1-number(s.MinP) >= minTopP
	}
	var lost []string
	*s, lost = wire.Draws(p.own, *s, !p.thinks() && !p.opts.FixedSampling, false, room && !p.opts.FixedSampling)
	for _, name := range lost {
		p.name(name)
	}
}

// exclusive drops the parameters that the API refuses beside thinking or beside each other. Of two of which one is the client's own,
// that one stays.
func (p *plan) exclusive() {
	s := &p.sampling
	temperature, topP := number(s.Temperature), number(s.TopP)
	switch {
	case s.Temperature != "" && p.thinks():
		p.drop(&s.Temperature, "temperature", temperature != 1)
	case temperature > 1 && s.Temperature != p.own.Temperature:
		p.name(wire.Became("temperature", s.Temperature, "1"))
		s.Temperature = "1"
	case temperature > 1 && !p.keepsOwn:
		p.lose("temperature")
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

// drop leaves a parameter out, and names it if that changes anything.
func (p *plan) drop(param *string, name string, matters bool) {
	*param = ""
	if matters {
		p.lose(name)
	}
}

// reportUnsupported names the profile's parameters that this API lacks. Cache keys are left out: without them the answer is the same.
func (p *plan) reportUnsupported() {
	s, own := &p.sampling, &p.own
	if s.Predicted != own.Predicted {
		p.name("predicted_output")
	}
	if s.Seed != own.Seed {
		p.name("seed")
	}
	if s.PresencePenalty != own.PresencePenalty && number(s.PresencePenalty) != 0 {
		p.name("presence_penalty")
	}
	if s.FrequencyPenalty != own.FrequencyPenalty && number(s.FrequencyPenalty) != 0 {
		p.name("frequency_penalty")
	}
	if s.WebSearch != nil && *s.WebSearch {
		p.name("web_search")
	}
	if s.TEE {
		p.name("tee_mode")
	}
}

// number reads a number's text; it is validated already, and 0 when absent.
func number(text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return f
}
