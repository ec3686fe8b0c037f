package openai

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
)

// scale are the efforts that models know, from the least. Few know all.
var scale = []string{effortNone, "minimal", "low", "medium", "high", "xhigh", effortMax}

// effort writes how hard to think as a client of another dialect said it: by its effort, or by what its budget amounts to. A model
// that is to decide by itself is told nothing.
func (w *writer) effort(p *chat.Params) {
	if w.opts.NoEffort {
		if p.ThinkingBudget > 0 || p.Thinking == chat.ThinkingAdaptive {
			w.Lose("thinking")
		}
		if p.Effort != "" && p.Effort != effortNone {
			w.Lose("effort")
		}
		return
	}
	effort := p.Effort
	switch {
	case effort != "" && p.ThinkingBudget > 0:
		w.Lose("budget_tokens")
	case effort == "" && p.ThinkingBudget > 0:
		effort = effortOf(p.ThinkingBudget)
	case effort == "" && p.Thinking == chat.ThinkingOff && slices.Contains(w.opts.Efforts, effortNone):
		effort = effortNone
	}
	if p.Thinking == chat.ThinkingOff && effort != effortNone {
		w.Lose("thinking")
	}
	fitting := w.opts.fit(effort)
	if fitting != effort {
		w.Lose("effort")
	}
	if fitting != "" {
		w.Key(keyEffort)
		w.Str(fitting)
	}
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
