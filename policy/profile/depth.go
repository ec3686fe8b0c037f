package profile

import (
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Reasoning is the reasoning behaviour of a subsystem.
type Reasoning struct {
	Depth       policy.Effort // unset: the provider's default
	Visible     bool          // its reasoning is returned as text
	Interleaved bool          // it reasons between tool calls, too
}

// reasonings are the reasoning behaviours of subsystems (S-12), by the name of their intent. They are independent of the pipeline profile
// (intent.Pipeline).
var reasonings = map[string]Reasoning{
	"heartbeat_t0":   {Depth: policy.EffortNone},
	"heartbeat_t1":   {Depth: policy.EffortLow},
	"heartbeat_t2":   {Depth: policy.EffortHigh},
	"dream":          {Depth: policy.EffortMax, Visible: true},
	"daimon":         {Depth: policy.EffortNone},
	"daimon_complex": {Depth: policy.EffortMax, Visible: true},
	"risk":           {Depth: policy.EffortMax, Interleaved: true},
	"death":          {Depth: policy.EffortMax, Visible: true},
	"operator":       {Depth: policy.EffortHigh, Interleaved: true},
}

// ReasoningOf returns a subsystem's reasoning by S-12, which everything more specific overrides: a row's effort (D-27), the operator's, the caller's.
// Subsystems without an entry reason with medium effort, or with high effort if their prompts are private. A request without a subsystem is no
// agent's, and has the default of its provider.
func ReasoningOf(subsystem string, security policy.SecurityClass) Reasoning {
	if subsystem == "" {
		return Reasoning{}
	}
	if r, ok := reasonings[intent.Root(subsystem)]; ok && intent.Known(subsystem) {
		return r
	}
	if security == policy.SecurityPrivate {
		return Reasoning{Depth: policy.EffortHigh}
	}
	return Reasoning{Depth: policy.EffortMedium}
}

// EffortFor returns the effort of the sending subsystem before vitality is applied: its row's, else the one for the quality that the caller requests
// (D-27), else that of S-12.
func EffortFor(h *policy.Hints, security policy.SecurityClass) policy.Effort {
	if row := RowOf(h.Subsystem); row != nil {
		return row.Profile.Effort
	}
	if h.Quality != policy.QualityUnset {
		return EffortOf(h.Quality)
	}
	return ReasoningOf(h.Subsystem, security).Depth
}

// reasoning returns the effective reasoning of the answer. Without reasoning there is nothing to show, and none between calls.
func reasoning(applied *policy.Profile, selected Reasoning) Reasoning {
	thinks := applied.Effort != policy.EffortNone
	return Reasoning{
		Depth:       applied.Effort,
		Visible:     thinks && applied.VisibleThinking != nil && *applied.VisibleThinking,
		Interleaved: thinks && selected.Interleaved,
	}
}
