package resolve

import "bardo.money/gateway/policy"

// modelTier is a kind of model that suits a subsystem. The zero value matches any model.
type modelTier struct {
	why string
	has set
}

// ladders are the kinds of models that suit subsystems, best first. They take precedence over the order of providers: all providers are searched
// for the first kind before the second. After the ladder, the order of providers applies.
var ladders = map[string][]modelTier{
	"dream": { // its visible reasoning is the text of the dream
		{why: "its reasoning is visible", has: setOf(policy.VisibleThinking)},
		{why: "its reasoning is summarised", has: ofClaude | setOf(policy.AdaptiveThinking)},
	},
	"risk": { // reasoning between tool calls
		{why: "it reasons between calls of tools", has: ofClaude | setOf(policy.InterleavedThinking)},
		{why: "it reasons hard", has: ofGPT | reasons},
	},
	"context": { // reasoning that the prompt can switch
		{why: "its thinking can be switched by the prompt", has: ofQwen},
		{why: "it thinks little when told so", has: ofClaude},
	},
}

// ladderOf returns a subsystem's ladder, nil if it has none; own is false for the ladder of its intent.
func ladderOf(in *policy.Intent) (ladder []modelTier, own bool) {
	if l, ok := ladders[in.SubsystemName]; ok {
		return l, in.SubsystemName != in.Subsystem
	}
	return ladders[in.Subsystem], false
}

// anything is the tier of any model.
var anything = modelTier{why: "the first provider that has what is required"}
