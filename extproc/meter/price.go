package meter

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Terms are on what terms a request calls a candidate.
type Terms struct {
	Direct bool   // the caller pays the provider itself: the call costs nothing here
	Tier   string // of service, that the call asks for; "" for the usual one
	Thinks bool   // the model may reason before it answers
}

// Cost is what a provider asks for a call: what it says itself, else what its usage comes to.
func (t Terms) Cost(to *policy.Resolution, u *chat.Usage) policy.Pico {
	switch {
	case t.Direct:
		return 0
	case u.Cost > 0:
		return u.Cost
	}
	return costAt(t.Prices(to, u), u)
}

// costAt is what a usage costs at given prices.
func costAt(p *policy.Prices, u *chat.Usage) policy.Pico {
	return p.Cost(u.Input, u.Cached, u.CacheWrite, u.CacheWrite1h, u.Output).Plus(p.PerSearch.Times(u.Searches))
}

// Prices are those of the tier that the answer says it was served in, else of the one that was asked for. A tier without a price, such as
// one that the operator's account has by contract, costs what is usual.
func (t Terms) Prices(to *policy.Resolution, u *chat.Usage) *policy.Prices {
	in, _ := to.Prices.InTier(t.BilledTier(to, u))
	return in
}

// BilledTier is the tier of service that a call is billed in; "" for the usual one.
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

// add is a sum of two counts of tokens, which saturates.
func add(a, b int64) int64 { return policy.AddTokens(a, b) }

// inputCosts are what a call's input cost, and what it would have cost without its provider's cache, at the prices of its tier and of its
// length. What was written for later calls costs more than plain input where the provider has a premium on it.
func (t Terms) inputCosts(to *policy.Resolution, u *chat.Usage) (paid, plain policy.Pico) {
	if t.Direct {
		return 0, 0
	}
	p := t.Prices(to, u)
	return p.Cost(u.Input, u.Cached, u.CacheWrite, u.CacheWrite1h, 0), p.Cost(u.TotalInput(), 0, 0, 0, 0)
}
