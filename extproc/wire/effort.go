package wire

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
)

// EffortNone disables thinking, for models that support it.
const EffortNone = "none"

// EffortMax is the highest effort of any model.
const EffortMax = "max"

// efforts are those of OpenAI's formats, in ascending order. Few models accept all of them.
var efforts = []string{EffortNone, "minimal", "low", "medium", "high", "xhigh", EffortMax}

// NearestEffort returns the effort in takes that is nearest to effort; "" for an unknown effort.
func NearestEffort(accepted []string, effort string) string {
	if slices.Contains(accepted, effort) {
		return effort
	}
	rank := slices.Index(efforts, effort)
	if rank < 0 {
		return ""
	}
	for distance := 1; distance < len(efforts); distance++ {
		for _, i := range [...]int{rank - distance, rank + distance} {
			if i >= 0 && i < len(efforts) && slices.Contains(accepted, efforts[i]) {
				return efforts[i]
			}
		}
	}
	return ""
}

// FitEffort returns the nearest effort that a model accepts. If its efforts are unknown (takes is nil), only max is replaced, which is
// above the formats' own scale.
func FitEffort(accepted []string, effort string) string {
	switch {
	case effort == "":
		return ""
	case accepted == nil && effort == EffortMax:
		return "high"
	case accepted == nil:
		return effort
	}
	return NearestEffort(accepted, effort)
}

// EffortOf converts a budget of thinking tokens into an effort.
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

// LevelOf expresses the thinking parameters of a request as an effort; "" if it has none. on is false if thinking is disabled.
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
