package meter

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Terms are the terms on which a request calls a candidate.
type Terms struct {
	Direct bool   // the caller pays the provider: the call costs nothing here
	Tier   string // requested service tier; "" for the default
	Thinks bool   // the model may reason before it answers
}

// Cost returns what a provider charges for a call: the cost that it reports, else that of its usage.
func (t Terms) Cost(to *policy.Resolution, u *chat.Usage) policy.Pico {
	switch {
	case t.Direct:
		return 0
	case u.Cost > 0 || u.CostKnown:
		return u.Cost
	}
	return costAt(t.Prices(to, u), u)
}

// costAt returns the cost of a usage at given prices.
func costAt(p *policy.Prices, u *chat.Usage) policy.Pico {
	return p.Cost(u.Input, u.Cached, u.CacheWrite, u.CacheWrite1h, u.Output).Plus(p.PerSearch.Times(u.Searches))
}

// Prices returns the prices of the service tier in the answer, else of the requested one. A tier without a price, such as one by contract, has the
// default prices.
func (t Terms) Prices(to *policy.Resolution, u *chat.Usage) *policy.Prices {
	in, _ := to.Prices.InTier(t.BilledTier(to, u))
	return in
}

// BilledTier returns the service tier that a call is billed in; "" for the default.
func (t Terms) BilledTier(to *policy.Resolution, u *chat.Usage) string {
	tier := u.Tier
	if tier == "" || tier == "auto" {
		tier = t.Tier
	}
	if _, ok := to.Prices.Tiers[tier]; !ok {
		return ""
	}
	return tier
}

// add returns the saturating sum of two token counts.
func add(a, b int64) int64 { return policy.AddTokens(a, b) }

// inputCosts returns what a call's input cost, and what it would have cost without the provider's cache, at the prices of its tier and length. Cache
// writes cost more than plain input if the provider has a premium on them.
func (t Terms) inputCosts(to *policy.Resolution, u *chat.Usage) (paid, plain policy.Pico) {
	if t.Direct {
		return 0, 0
	}
	p := t.Prices(to, u)
	return p.Cost(u.Input, u.Cached, u.CacheWrite, u.CacheWrite1h, 0), p.Cost(u.TotalInput(), 0, 0, 0, 0)
}
