package profile

import (
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Reasoning is how a subsystem thinks.
type Reasoning struct {
	Depth       policy.Effort // unsaid: as the provider does by default
	Visible     bool          // its thoughts are wanted in words
	Interleaved bool          // it is to think between calls of tools, too
}

// reasonings are how the parts of an agent think (S-12), by the name of their intent. It goes with how much context
// engineering they get (intent.Pipeline), and depends on nothing else: the two are independent of each other.
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

// ReasoningOf is how a subsystem thinks by the selection of S-12, over which everything more specific takes precedence: a row's effort (D-27), the
// operator's, the caller's. What none of its lines names thinks a medium amount, or much where its prompts are private. A request that
// names no part is no agent's: it has the default of its provider.
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

// EffortFor is how hard the subsystem that sends the request thinks, before declining life acts: what its row says, else the quality that the
// caller asks for (D-27), else the selection of S-12.
func EffortFor(h *policy.Hints, security policy.SecurityClass) policy.Effort {
	if row := RowOf(h.Subsystem); row != nil {
		return row.Profile.Effort
	}
	if h.Quality != policy.QualityUnset {
		return EffortOf(h.Quality)
	}
	return ReasoningOf(h.Subsystem, security).Depth
}

// reasoning is how the answer is thought about in the end. Who does not think has nothing to show, and nothing to think between calls.
func reasoning(applied *policy.Profile, selected Reasoning) Reasoning {
	thinks := applied.Effort != policy.EffortNone
	return Reasoning{
		Depth:       applied.Effort,
		Visible:     thinks && applied.VisibleThinking != nil && *applied.VisibleThinking,
		Interleaved: thinks && selected.Interleaved,
	}
}
