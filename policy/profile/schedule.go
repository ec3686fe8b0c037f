package profile

import (
	"math"

	"bardo.money/gateway/policy"
)

// Temperatures that change within a session. Steps are counted from 1, as in the hints; 0 is an unset step.
const (
	remStart = 0.7 // of the first call of REM
	remCalls = 4   // until the profile's temperature is reached

	inductionStart = 1.0
	inductionSteps = 4

	daliLow = 0.5 // at the end of a cycle

	// DefaultReanneal is the factor from a hypnagogic cycle's highest temperature to the next one's.
	DefaultReanneal = 0.95
)

// ramp moves from one temperature to another in a number of steps, and stays there. An unset step counts as the last one.
func ramp(from, to float64, step, steps int) float64 {
	if step <= 0 || step >= steps {
		return to
	}
	from = min(from, to)
	return math.Round((from+(to-from)*float64(step-1)/float64(steps-1))*100) / 100
}

// DaliTemperature returns the temperature of one step of a hypnagogic cycle: half a cosine from high at step 1 to low at the last one. Steps outside
// the cycle count as its ends.
func DaliTemperature(step, total int, high, low float64) float64 {
	if step <= 1 || total <= 1 {
		return high
	}
	progress := float64(min(step, total)-1) / float64(total-1)
	return rounded(low + (high-low)*(1+math.Cos(progress*math.Pi))/2)
}

// Reanneal returns the highest temperature of a later cycle; the first is cycle 0.
func Reanneal(cycle int, high, factor float64) float64 {
	return rounded(high * math.Pow(factor, float64(max(cycle, 0))))
}

// scheduled returns a row's temperature at this step of its session.
func scheduled(row *Row, temperature float64, h *policy.Hints, factor float64) float64 {
	switch row.Name {
	case "dream_rem":
		return ramp(remStart, temperature, h.REMCall, remCalls)
	case "hypnagogic_induction":
		return ramp(inductionStart, temperature, max(h.InductionStep, 1), inductionSteps)
	case "hypnagogic_dali":
		high := max(Reanneal(h.DaliCycle, temperature, factor), min(daliLow, temperature))
		return DaliTemperature(h.DaliStep, h.DaliTotalSteps, high, min(daliLow, high))
	}
	return temperature
}

// rounded rounds to three decimals: models distinguish no more, and a stable text keeps caches valid.
func rounded(t float64) float64 { return math.Round(t*1000) / 1000 }
