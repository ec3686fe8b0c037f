// Package intent defines what requests need of a model: the twelve intents of an agent's subsystems, their aliases, the effect of vitality, and the
// inference of needs for auto. It is pure and knows no provider.
package intent

import (
	"maps"
	"slices"
	"time"

	"bardo.money/gateway/policy"
)

// Unknown is the intent of unknown subsystems: conservative and cheap.
const Unknown = "heartbeat_t1"

// statics are the twelve intents. A latency of zero means no bound.
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

// parents maps the aliases of subsystems to the intent that they share (D-04).
var parents = map[string]string{
	"dream_nrem": "dream", "dream_rem": "dream", "dream_rem_creative": "dream", "dream_integration": "dream", "dream_threat": "dream",
	"hypnagogic_induction": "dream", "hypnagogic_dali": "dream", "hypnopompic_return": "dream",
	"hypnagogic_observer": "heartbeat_t1", "hypnagogic_capture": "heartbeat_t1", "mind_wandering": "heartbeat_t1", "context": "heartbeat_t1",
	"death_reflect": "death", "death_testament": "death",
	"session":    "session_compact",
	"autonomous": "heartbeat_t1", "social": "heartbeat_t1",
}

// offline are the intents whose answers may come hours later: the agent does not wait for them.
var offline = []string{"dream", "curator", "playbook", "death", "session_compact"}

// Offline reports whether a subsystem's requests may be answered hours later.
func Offline(subsystem string) bool { return slices.Contains(offline, Root(subsystem)) }

var byName = index()

func index() map[string]*policy.Intent {
	m := make(map[string]*policy.Intent, len(statics))
	for i := range statics {
		m[statics[i].Subsystem] = &statics[i]
	}
	return m
}

// Root returns the name of a subsystem's intent: its own, its alias's, or Unknown.
func Root(subsystem string) string {
	if _, ok := byName[subsystem]; ok {
		return subsystem
	}
	if root, ok := parents[subsystem]; ok {
		return root
	}
	return Unknown
}

// Known reports whether a subsystem has an intent, by itself or as an alias.
func Known(subsystem string) bool {
	_, ok := byName[subsystem]
	_, alias := parents[subsystem]
	return ok || alias
}

// Of returns a subsystem's intent. Its lists are shared: clip them before appending.
func Of(subsystem string) policy.Intent {
	in := *byName[Root(subsystem)]
	in.Require, in.Prefer = slices.Clip(in.Require), slices.Clip(in.Prefer)
	in.SubsystemName = subsystem
	return in
}

// Names returns the twelve intents in order.
func Names() []string {
	out := make([]string, len(statics))
	for i := range statics {
		out[i] = statics[i].Subsystem
	}
	return out
}

// Subsystems returns all names that Known accepts, sorted.
func Subsystems() []string {
	out := slices.AppendSeq(Names(), maps.Keys(parents))
	slices.Sort(out)
	return out
}

// Critical reports whether a subsystem's requests are never made cheaper: risk, operator and death.
func Critical(subsystem string) bool { return exempt(Root(subsystem)) }

// exempt reports whether vitality does not affect an intent.
func exempt(root string) bool { return root == "risk" || root == "death" || root == "operator" }

// ApplyPressure makes an intent cheaper as vitality (the remaining lifespan, 0 to 1) falls: the cost sensitivity rises, and below 0.3 the minimum quality
// drops one class. Risk, death and operator are exempt.
func ApplyPressure(in *policy.Intent, vitality float64) {
	if exempt(in.Subsystem) {
		return
	}
	pressure := 1 - min(max(vitality, 0), 1)
	in.CostSensitivity = min(in.CostSensitivity+pressure*0.3, 1)
	if pressure > extremePressure {
		in.Quality = in.Quality.Downgrade()
	}
}

// extremePressure is the pressure above which quality falls.
const extremePressure = 0.7
