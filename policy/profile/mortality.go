package profile

import (
	"math"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

const (
	analyticalFloor = 0.3 // temperature that falling vitality leads to
	mortalityWeight = 0.5 // maximum part of the way

	downgradePressure = 0.7 // above it, the effort drops one class
	silencePressure   = 0.9 // above it, the effort is none
)

// MortalTemperature lowers a temperature towards the analytical floor as vitality falls: vitality is the remaining lifespan, 0 to 1. It never raises
// one: a temperature below the floor stays (D-21).
func MortalTemperature(temperature, vitality float64) float64 {
	if temperature <= analyticalFloor {
		return temperature
	}
	lowered := temperature - (temperature-analyticalFloor)*pressure(vitality)*mortalityWeight
	return min(temperature, rounded(lowered))
}

// MortalEffort returns the effort as vitality falls.
func MortalEffort(e policy.Effort, vitality float64) policy.Effort {
	switch p := pressure(vitality); {
	case e == policy.EffortUnset:
		return e
	case p > silencePressure:
		return policy.EffortNone
	case p > downgradePressure:
		return e.Downgrade()
	}
	return e
}

func pressure(vitality float64) float64 {
	if math.IsNaN(vitality) {
		return 0
	}
	// 1-0.1 is slightly more than 0.9: rounding keeps a stated limit from being exceeded.
	return math.Round((1-min(max(vitality, 0), 1))*1e9) / 1e9
}

// keepsEffort reports whether vitality does not affect a subsystem's effort.
func keepsEffort(subsystem string) bool {
	switch intent.Root(subsystem) {
	case "risk", "death", "operator":
		return true
	}
	return false
}
