package runtime

import (
	"fmt"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Extras lists the parts of a request that cost more than their tokens at a candidate. A candidate of another format does not get them.
func (rt *Config) Extras(req *chat.Request, to *policy.Resolution) []provider.Extra {
	p := rt.Provider(to.Provider)
	if p.Free || req.Op == chat.CountTokens {
		return nil
	}
	charging, ok := p.Adapter.(provider.Charging)
	if !ok || p.Adapter.Dialect(*to, p.Endpoint, req.Dialect) != req.Dialect {
		return nil
	}
	charges := charging.Charges(to, p.Endpoint, req.Dialect)
	return charges.Extras(req)
}

// speaksClientDialect reports whether requests to a candidate have the client's format.
func (rt *Config) speaksClientDialect(req *chat.Request, to *policy.Resolution) bool {
	p := rt.Provider(to.Provider)
	return p.Adapter.Dialect(*to, p.Endpoint, req.Dialect) == req.Dialect
}

// Unpriced returns the first of a request's extras without a price at a candidate; nil if there is none.
func (rt *Config) Unpriced(req *chat.Request, to *policy.Resolution) *UnpricedPart {
	for _, e := range rt.Extras(req, to) {
		if !IsPriced(&e, to) {
			return &UnpricedPart{e, to.Provider, to.Model}
		}
	}
	return nil
}

// IsPriced reports whether the catalog (or the price list of staked credit) has the price of an extra at a candidate.
func IsPriced(e *provider.Extra, to *policy.Resolution) bool {
	prices := &to.Prices
	if to.Staked != nil {
		prices = to.Staked
	}
	switch e.By {
	case provider.NoCharge:
		return true
	case provider.PerSearch:
		return prices.SearchKnown
	case provider.PerTier:
		_, ok := prices.InTier(e.Value)
		return ok && e.Value != ""
	case provider.Unpriced:
	}
	return false
}

// UnpricedPart is a part of a request that has no price at a candidate.
type UnpricedPart struct {
	provider.Extra

	Provider policy.ProviderID
	Model    policy.ModelID
}

// Error returns why the candidate is not called.
func (u *UnpricedPart) Error() string { return u.name() + " has no price there" }

// name returns the member and its value: service_tier "scale".
func (u *UnpricedPart) name() string {
	if u.Value == "" {
		return u.At
	}
	return fmt.Sprintf("%s %q", u.At, u.Value)
}

// Fault returns the client's error when no candidate has a price for the part.
func (u *UnpricedPart) Fault() *fault.Fault {
	f := fault.New(fault.UnpricedParameter, fmt.Sprintf("%s costs extra, and the gateway knows no price of it for %s at %s: "+
		"leave it out, or use a key of your own there (providers.direct)", u.name(), u.Model, u.Provider), u)
	f.Param = u.At
	return f
}

// Priced returns the candidates at which the whole request has a price, or for which direct reports that the caller pays; refused has the unpriced
// part of each other one. If no candidate of the client's format is left, those of other formats are removed as well: they would silently drop the
// part.
func (rt *Config) Priced(req *chat.Request, found []policy.Resolution, direct func(policy.ProviderID) bool) (left []policy.Resolution, refused []*UnpricedPart) {
	carried := false
	for i := range found {
		to := &found[i]
		if !direct(to.Provider) {
			if u := rt.Unpriced(req, to); u != nil {
				refused = append(refused, u)
				continue
			}
		}
		carried = carried || rt.speaksClientDialect(req, to)
		left = append(left, *to)
	}
	if len(refused) > 0 && !carried {
		return nil, refused
	}
	return left, refused
}
