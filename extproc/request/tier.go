package request

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Service tiers (priority, flex, batch): the client names one by the provider's own value, and the tier in the answer is billed. A tier without a
// price in the catalog is removed from the request, unless the caller pays the provider.

// RequestedTier returns the service tier in the client's request, and the member that holds it; empty for the default tier.
func (v *View) RequestedTier() (member, tier string) {
	if v.Request == nil {
		return "", ""
	}
	for _, member := range [...]string{chat.ServiceTier, "serviceTier"} {
		if value := v.Request.Doc.Get(member); !value.IsNull() {
			if tier, ok := value.Str(); !ok || !policy.IsUsualTier(tier) {
				return member, tier
			}
		}
	}
	return "", ""
}

// RemovesTier returns the member to remove at a candidate because the requested tier has no price there; "" for none.
func (v *View) RemovesTier(to *policy.Resolution) string {
	member, tier := v.RequestedTier()
	if member == "" || v.CallerPays(to.Provider) {
		return ""
	}
	if _, ok := to.Prices.InTier(tier); ok && tier != "" {
		return ""
	}
	return member
}

// WithoutTier returns a copy of a request without its service tier member.
func WithoutTier(req *chat.Request, member string) *chat.Request {
	less := *req
	less.Edit = req.Edit.Clone()
	less.Edit.Delete(&less.Doc, member)
	return &less
}

// TierAt returns the service tier of requests to a candidate; "" for the default. Only candidates of the client's own format support others.
func (v *View) TierAt(to *policy.Resolution) string {
	_, tier := v.RequestedTier()
	if tier == "" {
		return ""
	}
	p := v.Config.Provider(to.Provider)
	if v.RemovesTier(to) != "" || p.Adapter.Dialect(*to, p.Endpoint, v.Request.Dialect) != v.Request.Dialect {
		return ""
	}
	return tier
}

// WithTierPrices returns the candidates with the prices of each one's service tier.
func (v *View) WithTierPrices(candidates []policy.Resolution) []policy.Resolution {
	if member, _ := v.RequestedTier(); member == "" {
		return candidates
	}
	list := slices.Clone(candidates)
	for i := range list {
		to := &list[i]
		in, _ := to.Prices.InTier(v.TierAt(to))
		to.Prices = *in
	}
	return list
}
