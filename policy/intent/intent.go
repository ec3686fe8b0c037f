// Package intent says what each part of an agent needs of a model: the twelve static intents, the finer names that stand for them, and
// what an agent's remaining life makes of them. It is pure, and knows no provider.
package intent

import (
	"maps"
	"slices"
	"time"

	"bardo.money/gateway/policy"
)

// Unknown is the intent of parts that nobody has described: conservative and cheap.
const Unknown = "heartbeat_t1"

// statics are the twelve intents. A latency of zero is no bound.
var statics = []policy.Intent{
	{Subsystem: "heartbeat_t0", Quality: policy.QualityMinimum, MaxLatency: 200 * time.Millisecond, CostSensitivity: 1},
	{
		Subsystem: "heartbeat_t1", Prefer: []policy.Feature{policy.LowEffort},
		Quality: policy.QualityLow, MaxLatency: 2 * time.Second, CostSensitivity: 0.8,
	},
	{
		Subsystem: "heartbeat_t2", Prefer: []policy.Feature{policy.InterleavedThinking, policy.Citations},
		Quality: policy.QualityHigh, MaxLatency: 30 * time.Second, CostSensitivity: 0.3,
	},
	{
		Subsystem: "risk", Prefer: []policy.Feature{policy.InterleavedThinking, policy.Citations},
		Quality: policy.QualityMaximum, MaxLatency: 30 * time.Second,
	},
	{
		Subsystem: "dream", Prefer: []policy.Feature{policy.VisibleThinking, policy.Privacy},
		Quality: policy.QualityHigh, MaxLatency: 2 * time.Minute, CostSensitivity: 0.5,
	},
	{
		Subsystem: "daimon", Prefer: []policy.Feature{policy.Privacy},
		Quality: policy.QualityLow, MaxLatency: time.Second, CostSensitivity: 0.9,
	},
	{
		Subsystem: "daimon_complex", Prefer: []policy.Feature{policy.VisibleThinking, policy.Privacy},
		Quality: policy.QualityHigh, MaxLatency: 10 * time.Second, CostSensitivity: 0.5,
	},
	{
		Subsystem: "curator", Prefer: []policy.Feature{policy.StructuredOutputs, policy.Citations},
		Quality: policy.QualityMedium, MaxLatency: 15 * time.Second, CostSensitivity: 0.5,
	},
	{
		Subsystem: "playbook", Prefer: []policy.Feature{policy.PredictedOutputs},
		Quality: policy.QualityMedium, MaxLatency: 10 * time.Second, CostSensitivity: 0.6,
	},
	{
		Subsystem: "operator", Prefer: []policy.Feature{policy.InterleavedThinking, policy.Citations},
		Quality: policy.QualityMaximum, MaxLatency: 5 * time.Second,
	},
	{
		Subsystem: "death", Require: []policy.Feature{policy.VisibleThinking}, Prefer: []policy.Feature{policy.Privacy},
		Quality: policy.QualityMaximum,
	},
	{
		Subsystem: "session_compact", Prefer: []policy.Feature{policy.Compaction},
		Quality: policy.QualityMedium, MaxLatency: 30 * time.Second, CostSensitivity: 0.5,
	},
}

// roots joins the finer names of parts to the intent that they share (D-04).
var roots = map[string]string{
	"dream_nrem": "dream", "dream_rem": "dream", "dream_rem_creative": "dream", "dream_integration": "dream", "dream_threat": "dream",
	"hypnagogic_induction": "dream", "hypnagogic_dali": "dream", "hypnopompic_return": "dream",
	"hypnagogic_observer": "heartbeat_t1", "hypnagogic_capture": "heartbeat_t1", "mind_wandering": "heartbeat_t1", "context": "heartbeat_t1",
	"death_reflect": "death", "death_testament": "death",
	"session":    "session_compact",
	"autonomous": "heartbeat_t1", "social": "heartbeat_t1",
}

var byName = index()

func index() map[string]*policy.Intent {
	m := make(map[string]*policy.Intent, len(statics))
	for i := range statics {
		m[statics[i].Subsystem] = &statics[i]
	}
	return m
}

// Root is the name of the intent that a part of an agent has: its own, its alias's, or Unknown's.
func Root(subsystem string) string {
	if _, ok := byName[subsystem]; ok {
		return subsystem
	}
	if root, ok := roots[subsystem]; ok {
		return root
	}
	return Unknown
}

// Known tells whether a name is one of the parts that have an intent, by themselves or by an alias.
func Known(subsystem string) bool {
	_, ok := byName[subsystem]
	_, alias := roots[subsystem]
	return ok || alias
}

// Of is the intent of a part of an agent. Its lists are shared: append to them only what makes a copy.
func Of(subsystem string) policy.Intent {
	in := *byName[Root(subsystem)]
	in.Require, in.Prefer = slices.Clip(in.Require), slices.Clip(in.Prefer)
	in.Asked = subsystem
	return in
}

// Names are the twelve intents, in their order.
func Names() []string {
	out := make([]string, len(statics))
	for i := range statics {
		out[i] = statics[i].Subsystem
	}
	return out
}

// Subsystems are all names that Known knows, sorted.
func Subsystems() []string {
	out := slices.AppendSeq(Names(), maps.Keys(roots))
	slices.Sort(out)
	return out
}

// exempt are the parts that an agent's decline does not touch.
func exempt(root string) bool { return root == "risk" || root == "death" || root == "operator" }

// Press makes an intent cheaper as life runs out: vitality is the remaining lifespan, 0 to 1. Risk, death and the operator are exempt.
// Under extreme pressure quality falls by one class.
func Press(in *policy.Intent, vitality float64) {
	if exempt(in.Subsystem) {
		return
	}
	pressure := 1 - min(max(vitality, 0), 1)
	in.CostSensitivity = min(in.CostSensitivity+pressure*0.3, 1)
	if pressure > extreme {
		in.Quality = in.Quality.Downgrade()
	}
}

// extreme is the pressure beyond which quality falls.
const extreme = 0.7
