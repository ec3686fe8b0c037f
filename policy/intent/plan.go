package intent

import (
	"strings"

	"bardo.money/gateway/policy"
)

// costs say how much cost matters to the requests of a key's plan that do not say it themselves.
var costs = map[policy.Tier]float64{policy.TierFree: 0.9, policy.TierPro: usualCost, policy.TierGolem: 0.3}

// usualCost is the cost sensitivity of a caller without a plan.
const usualCost = 0.5

// CostSensitivity is how much cost matters to a plan's requests that do not say it themselves.
func CostSensitivity(t policy.Tier) float64 {
	if cost, ok := costs[t]; ok {
		return cost
	}
	return usualCost
}

// barProviders bars the providers that the operator keeps out of the caller's plan.
func barProviders(in *policy.Intent, t policy.Tier, barred []policy.ProviderID, why *[]string) {
	if len(barred) == 0 {
		return
	}
	in.Barred = barred
	names := make([]string, len(barred))
	for i, id := range barred {
		names[i] = string(id)
	}
	*why = append(*why, "plan "+string(t)+": without "+strings.Join(names, ", "))
}
