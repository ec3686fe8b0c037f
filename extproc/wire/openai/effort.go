package openai

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

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
		effort = wire.EffortOf(p.ThinkingBudget)
	case effort == "" && p.Thinking == chat.ThinkingOff && slices.Contains(w.opts.Efforts, effortNone):
		effort = effortNone
	}
	if p.Thinking == chat.ThinkingOff && effort != effortNone {
		w.Lose("thinking")
	}
	fitting := wire.FitEffort(w.opts.Efforts, effort)
	if fitting != effort {
		w.Lose("effort")
	}
	if fitting != "" {
		w.Key(keyEffort)
		w.Str(fitting)
	}
}
