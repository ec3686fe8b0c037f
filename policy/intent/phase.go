package intent

import "bardo.money/gateway/policy"

// phases map an agent's phase of life to its vitality, where none is stated, and to the highest quality class that it may use. D-02 defines the
// phases without numbers. These follow the budget that P-11 gives a phase at Venice: all of it for thriving and stable agents, half for conservation,
// a tenth for declining, and none for a terminal agent.
var phases = [...]struct {
	vitality   float64
	maxQuality policy.Quality
}{
	policy.PhaseUnset:        {},
	policy.PhaseThriving:     {1, policy.QualityMaximum},
	policy.PhaseStable:       {0.75, policy.QualityMaximum},
	policy.PhaseConservation: {0.5, policy.QualityHigh},
	policy.PhaseDeclining:    {0.2, policy.QualityMedium},
	policy.PhaseTerminal:     {0.05, policy.QualityLow},
}

// VitalityOf returns an agent's stated vitality, else its phase's. ok is false if neither is stated.
func VitalityOf(h *policy.Hints) (vitality float64, ok bool) {
	if h.Vitality != nil {
		return *h.Vitality, true
	}
	return phases[h.Phase].vitality, h.Phase != policy.PhaseUnset
}

// applyVitality makes the intent cheaper as vitality falls, and limits its quality to the maximum of the agent's phase.
func applyVitality(in *policy.Intent, h *policy.Hints, why *[]string) {
	if exempt(in.Subsystem) {
		return
	}
	if v, ok := VitalityOf(h); ok {
		before := in.Quality
		ApplyPressure(in, v)
		if in.Quality < before {
			*why = append(*why, "mortality: quality "+in.Quality.String())
		}
	}
	if maxQuality := phases[h.Phase].maxQuality; maxQuality != policy.QualityUnset && in.Quality > maxQuality {
		in.Quality = maxQuality
		*why = append(*why, "phase "+h.Phase.String()+": quality "+in.Quality.String())
	}
}
