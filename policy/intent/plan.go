package intent

import (
	"strings"

	"bardo.money/gateway/policy"
)

// costs are the cost sensitivities of requests that do not state one, by the key's plan.
var costs = map[policy.Tier]float64{policy.TierFree: 0.9, policy.TierPro: usualCost, policy.TierGolem: 0.3}

// usualCost is the cost sensitivity of a caller without a plan.
const usualCost = 0.5

// CostSensitivity returns the cost sensitivity of a plan's requests that do not state one.
func CostSensitivity(t policy.Tier) float64 {
	if cost, ok := costs[t]; ok {
		return cost
	}
	return usualCost
}

// barProviders excludes the providers that the operator bars from the caller's plan.
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
