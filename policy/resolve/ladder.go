package resolve

import "bardo.money/gateway/policy"

// rung is a kind of model that a part of an agent is best served by. Its zero value is any.
type rung struct {
	why string
	has set
}

// ladders are the kinds of models that parts of agents are best served by, best first, whatever the order of providers: each provider is
// asked for the first kind before any is asked for the second (how reasoning is to be had, subsystem by subsystem). What the ladder does
// not reach is served by the order of providers alone.
var ladders = map[string][]rung{
	"dream": { // visible reasoning is the dream's narration
		{why: "its reasoning is visible", has: setOf(policy.VisibleThinking)},
		{why: "its reasoning is summarised", has: ofClaude | setOf(policy.AdaptiveThinking)},
	},
	"risk": { // reasoning between the calls of tools
		{why: "it reasons between calls of tools", has: ofClaude | setOf(policy.InterleavedThinking)},
		{why: "it reasons hard", has: ofGPT | reasons},
	},
	"context": { // thinking that a word in the prompt switches
		{why: "its thinking can be switched by the prompt", has: ofQwen},
		{why: "it thinks little when told so", has: ofClaude},
	},
}

// ladderOf is the ladder of a part of an agent, nil if it has none, and whether it is the part's own rather than its intent's.
func ladderOf(in *policy.Intent) (ladder []rung, own bool) {
	if l, ok := ladders[in.Asked]; ok {
		return l, in.Asked != in.Subsystem
	}
	return ladders[in.Subsystem], false
}

// anything is the rung that takes any model.
var anything = rung{why: "the first provider that has what is asked for"}
