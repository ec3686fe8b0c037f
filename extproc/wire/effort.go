package wire

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
)

// EffortNone says that a model is not to think, where it can be told so.
const EffortNone = "none"

// EffortMax is the most that any model takes.
const EffortMax = "max"

// efforts are those that OpenAI's formats know, from the least. Few models know all.
var efforts = []string{EffortNone, "minimal", "low", "medium", "high", "xhigh", EffortMax}

// NearestEffort is the nearest of some efforts; "" for one that is on no scale.
func NearestEffort(takes []string, effort string) string {
	if slices.Contains(takes, effort) {
		return effort
	}
	rank := slices.Index(efforts, effort)
	if rank < 0 {
		return ""
	}
	for distance := 1; distance < len(efforts); distance++ {
		for _, i := range [...]int{rank - distance, rank + distance} {
			if i >= 0 && i < len(efforts) && slices.Contains(takes, efforts[i]) {
				return efforts[i]
			}
		}
	}
	return ""
}

// FitEffort is the nearest effort that a model takes. Of one of which nothing is known (takes is nil), only the most is not asked: the
// formats' own scale ends below.
func FitEffort(takes []string, effort string) string {
	switch {
	case effort == "":
		return ""
	case takes == nil && effort == EffortMax:
		return "high"
	case takes == nil:
		return effort
	}
	return NearestEffort(takes, effort)
}

// EffortOf is the effort that a budget of thinking tokens amounts to.
func EffortOf(budget int) string {
	const low, medium = 2048, 8192
	switch {
	case budget <= low:
		return "low"
	case budget <= medium:
		return "medium"
	}
	return "high"
}

// LevelOf is what is said about thinking as an effort; "" if nothing is. on is false where the model is not to think.
func LevelOf(p *chat.Params) (level string, on bool) {
	switch {
	case p.Effort != "":
		level = p.Effort
	case p.ThinkingBudget > 0:
		level = EffortOf(p.ThinkingBudget)
	case p.Thinking == chat.ThinkingAdaptive:
		level = "medium"
	case p.Thinking == chat.ThinkingOff:
		level = EffortNone
	}
	return level, level != EffortNone
}
