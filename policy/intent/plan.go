package intent

import "bardo.money/gateway/policy"

// plans say what a key's plan means for its requests: how much cost matters to one that says nothing about it, and which providers it
// does not include (002's feature tiers).
var plans = map[policy.Tier]struct {
	cost   float64
	barred []policy.ProviderID
	why    string
}{
	policy.TierFree:  {0.9, []policy.ProviderID{"venice", "bankr", "direct"}, "plan free: without venice, bankr and direct keys"},
	policy.TierPro:   {0.5, []policy.ProviderID{"bankr"}, "plan pro: without bankr"},
	policy.TierGolem: {0.3, nil, ""},
}

// usualCost is the cost sensitivity of a caller without a plan.
const usualCost = 0.5

// CostSensitivity is how much cost matters to a plan's requests that do not say it themselves.
func CostSensitivity(t policy.Tier) float64 {
	if p, ok := plans[t]; ok {
		return p.cost
	}
	return usualCost
}

// restrict bars the providers that the caller's plan does not include.
func restrict(in *policy.Intent, t policy.Tier, why *[]string) {
	if p := plans[t]; len(p.barred) > 0 {
		in.Barred = p.barred
		*why = append(*why, p.why)
	}
}
