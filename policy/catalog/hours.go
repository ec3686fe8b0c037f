package catalog

import (
	"slices"
	"time"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// AsOf returns the same catalog with the prices of a time of day. Without it, the regular prices apply.
func (c *Catalog) AsOf(now time.Time) *Catalog {
	out := *c
	out.now, out.models = now, slices.Clone(c.models)
	for i, e := range c.entries {
		if e.Price != nil && len(e.Price.Hours) > 0 {
			out.models[i] = out.complete("", out.withFamily(e, e.ID, e.UpstreamID))
		}
	}
	return &out
}

// PricesUntil returns when prices of the catalog's own entries may change; zero: never.
func (c *Catalog) PricesUntil() (first time.Time) {
	for i := range c.models {
		first = earlier(first, c.models[i].PriceUntil)
	}
	return first
}

// earlier returns the earlier of two times; a zero one is ignored.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// pricesNow completes a price for the catalog's time. part is the part of the day whose price it is, "" for the regular one; until is when it ends,
// zero for never.
func (c *Catalog) pricesNow(p *modelfile.Price, cache kind.CacheTerms) (list policy.Prices, part string, until time.Time) {
	if p == nil || len(p.Hours) == 0 || c.now.IsZero() {
		return prices(p, cache), "", until
	}
	h, until := p.At(c.now)
	if h == nil {
		return prices(p, cache), "", until
	}
	if list = prices(p.In(h), cache); h.Percent > 0 {
		list = percentOfAll(&list, int64(h.Percent))
	}
	return list, h.Name(), until
}

// percentOfAll returns n percent of the token prices, including those of service tiers.
func percentOfAll(p *policy.Prices, n int64) policy.Prices {
	out := p.Percent(n)
	for name, tier := range p.Tiers {
		if out.Tiers == nil {
			out.Tiers = make(map[string]policy.Prices, len(p.Tiers))
		}
		out.Tiers[name] = tier.Percent(n)
	}
	return out
}
