package anthropic

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
)

// minBudget is the smallest thinking budget that the API takes, in tokens.
const minBudget = 1024

// plan settles what depends on each other: the answer's limit, the thinking, and what may not stand beside it.
func (w *writer) plan() {
	w.maxTokens = w.req.MaxTokens
	if limit := w.opts.MaxOutput; limit > 0 && w.maxTokens > limit {
		w.lose("max_tokens")
		w.maxTokens = limit
	}
	if w.maxTokens == 0 {
		w.maxTokens = w.opts.MaxOutput
	}
	if w.maxTokens == 0 {
		w.maxTokens = defaultMaxTokens
	}
	w.planThinking()
	w.planSampling()
}

// efforts are the API's efforts and the budgets that stand for them, by the caller's words. The API's word is "" where
// it has none of its own.
var efforts = map[string]struct {
	word   string
	budget int
}{
	"minimal": {"", 1024}, "low": {"low", 1024}, "medium": {"medium", 4096}, "high": {"high", 16384},
	"xhigh": {"", 32768}, "max": {"max", 32768},
}

func (w *writer) planThinking() {
	p := &w.conv.Params
	effort, known := efforts[p.Effort]
	budget := p.ThinkingBudget
	if budget == 0 {
		budget = effort.budget
	}
	if budget == 0 && p.Thinking == chat.ThinkingAdaptive {
		budget = efforts["medium"].budget
	}
	switch {
	case p.Effort == "none", p.Thinking == chat.ThinkingOff:
		w.loseThinking()
	case budget == 0:
		if p.Effort != "" {
			w.lose("effort")
		}
	case w.turns[len(w.turns)-1].assistant, !w.opts.Adaptive && !canThink(w.turns):
		w.lose("effort")
	case w.opts.Adaptive:
		w.adaptive = true
		w.effort = w.word(known, effort.word, budget)
	default:
		if p.ThinkingBudget > 0 && p.Effort != "" {
			w.lose("effort")
		}
		w.fitBudget(max(budget, minBudget))
	}
}

// loseThinking names what was said about thinking that is switched off.
func (w *writer) loseThinking() {
	p := &w.conv.Params
	if p.ThinkingBudget > 0 {
		w.lose("budget_tokens")
	}
	if p.Effort != "" && p.Effort != "none" {
		w.lose("effort")
	}
}

// word is the effort for a model that takes no budget: the caller's own, the nearest one of the API's, or what the
// budget amounts to.
func (w *writer) word(known bool, word string, budget int) string {
	p := &w.conv.Params
	switch {
	case known && p.ThinkingBudget > 0:
		w.lose("budget_tokens")
	case p.Effort != "" && word == "":
		w.lose("effort")
	}
	switch {
	case word != "":
		return word
	case p.Effort == "" && p.ThinkingBudget == 0: // the model decides
		return ""
	}
	return effortOf(budget)
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

// fitBudget makes room for a budget: it counts against the answer's limit, so the limit is raised where the caller set
// one and the model allows more; else the budget shrinks, and too small a one is none.
func (w *writer) fitBudget(budget int) {
	if w.req.MaxTokens > 0 && w.opts.MaxOutput > 0 {
		w.maxTokens = min(w.maxTokens+budget, w.opts.MaxOutput)
	}
	if budget >= w.maxTokens {
		w.lose("effort")
		budget = max(minBudget, w.maxTokens/2)
	}
	if budget < w.maxTokens {
		w.budget = budget
	}
}

// planSampling drops the parameters that the API refuses beside thinking or beside each other.
func (w *writer) planSampling() {
	w.sampling = w.conv.Params
	p := &w.sampling
	temperature, topP := number(p.Temperature), number(p.TopP)
	thinks := w.adaptive || w.budget > 0
	switch {
	case p.Temperature != "" && thinks:
		w.drop(&p.Temperature, "temperature", temperature != 1)
	case temperature > 1:
		w.lose("temperature")
		p.Temperature = "1"
	}
	switch {
	case p.TopP == "":
	case topP == 1:
		p.TopP = ""
	case p.Temperature != "", thinks && topP < 0.95:
		w.drop(&p.TopP, "top_p", true)
	}
	if thinks && p.TopK != "" {
		w.drop(&p.TopK, "top_k", true)
	}
	w.choice = w.conv.ToolChoice
	if thinks && (w.choice.Mode == chat.ToolAny || w.choice.Mode == chat.ToolNamed) {
		w.lose("tool_choice")
		w.choice = chat.ToolChoice{}
	}
}

// drop leaves a parameter out, and names it if that changes anything.
func (w *writer) drop(param *string, name string, matters bool) {
	*param = ""
	if matters {
		w.lose(name)
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
