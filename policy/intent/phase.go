package intent

import "bardo.money/gateway/policy"

// phases say what an agent's phase of life means for it: the vitality that stands for the phase where none is said, and the best class
// of models that it may still have. D-02 gives the phases and no numbers. These follow the budget that P-11 leaves a phase at
// Venice: thriving and stable agents have all of theirs, conservation half, declining a tenth, and a terminal agent none.
var phases = [...]struct {
	vitality float64
	most     policy.Quality
}{
	policy.PhaseUnset:        {},
	policy.PhaseThriving:     {1, policy.QualityMaximum},
	policy.PhaseStable:       {0.75, policy.QualityMaximum},
	policy.PhaseConservation: {0.5, policy.QualityHigh},
	policy.PhaseDeclining:    {0.2, policy.QualityMedium},
	policy.PhaseTerminal:     {0.05, policy.QualityLow},
}

// VitalityOf is the vitality that an agent has: the one it says, else its phase's. ok is false when it says neither.
func VitalityOf(h *policy.Hints) (vitality float64, ok bool) {
	if h.Vitality != nil {
		return *h.Vitality, true
	}
	return phases[h.Phase].vitality, h.Phase != policy.PhaseUnset
}

// applyVitality makes the intent cheaper as life runs out, and holds it to what the agent's phase may still have.
func applyVitality(in *policy.Intent, h *policy.Hints, why *[]string) {
	if exempt(in.Subsystem) {
		return
	}
	if v, ok := VitalityOf(h); ok {
		before := in.Quality
		Press(in, v)
		if in.Quality < before {
			*why = append(*why, "mortality: quality "+in.Quality.String())
		}
	}
	if most := phases[h.Phase].most; most != policy.QualityUnset && in.Quality > most {
		in.Quality = most
		*why = append(*why, "phase "+h.Phase.String()+": quality "+in.Quality.String())
	}
}
