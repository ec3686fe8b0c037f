package profile

import (
	"math"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

const (
	analyticalFloor = 0.3 // where declining life leads temperatures
	mortalityWeight = 0.5 // how far, at most

	downgradePressure = 0.7 // beyond it, a model thinks one class less
	silencePressure   = 0.9 // beyond it, not at all
)

// MortalTemperature moves a temperature towards the analytical as life runs out: vitality is the remaining lifespan, 0 to 1. It never
// raises one: what is below the floor already stays (D-21).
func MortalTemperature(temperature, vitality float64) float64 {
	if temperature <= analyticalFloor {
		return temperature
	}
	lowered := temperature - (temperature-analyticalFloor)*pressure(vitality)*mortalityWeight
	return min(temperature, rounded(lowered))
}

// MortalEffort is how hard a model thinks as life runs out.
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
	// 1-0.1 is a little more than 0.9, and what is said as a limit is not beyond it.
	return math.Round((1-min(max(vitality, 0), 1))*1e9) / 1e9
}

// keepsEffort are the roots whose thinking does not contract.
func keepsEffort(subsystem string) bool {
	switch intent.Root(subsystem) {
	case "risk", "death", "operator":
		return true
	}
	return false
}
