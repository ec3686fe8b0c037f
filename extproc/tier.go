package extproc

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Providers that serve some requests sooner or later than others ask for more or for less. A client says which it wants, in the words of the
// provider; what the answer says that it was counts. A tier whose price nobody knows is not asked for, but of users' own providers.

// tierAsked is the tier of service that the client asks for, and the member that says so; none for the usual one.
func (x *exchange) tierAsked() (member, tier string) {
	if x.Request == nil {
		return "", ""
	}
	for _, member := range [...]string{chat.ServiceTier, "serviceTier"} {
		if v := x.Request.Doc.Get(member); !v.IsNull() {
			if tier, ok := v.Str(); !ok || !policy.IsUsualTier(tier) {
				return member, tier
			}
		}
	}
	return "", ""
}

// refusesTier is the member that a candidate does not get to see, since nobody knows what that tier costs there; "" for none.
func (x *exchange) refusesTier(to *policy.Resolution) string {
	member, tier := x.tierAsked()
	if member == "" || x.direct(to.Provider) {
		return ""
	}
	if _, ok := to.Prices.InTier(tier); ok && tier != "" {
		return ""
	}
	return member
}

// withoutTier is a request that does not say its tier of service.
func withoutTier(req *chat.Request, member string) *chat.Request {
	less := *req
	less.Edit = req.Edit.Clone()
	less.Edit.Delete(&less.Doc, member)
	return &less
}

// tierAt is the tier in which a candidate is asked; "" for the usual one. Only those who are asked in the client's own words get to see
// another.
func (x *exchange) tierAt(to *policy.Resolution) string {
	_, tier := x.tierAsked()
	p, ok := x.rt.Providers[to.Provider]
	if tier == "" || !ok || x.refusesTier(to) != "" || p.Adapter.Dialect(*to, p.Endpoint, x.Request.Dialect) != x.Request.Dialect {
		return ""
	}
	return tier
}

// inTier are candidates with the prices of the tier that each is asked in.
func (x *exchange) inTier(candidates []policy.Resolution) []policy.Resolution {
	if member, _ := x.tierAsked(); member == "" {
		return candidates
	}
	list := slices.Clone(candidates)
	for i := range list {
		to := &list[i]
		in, _ := to.Prices.InTier(x.tierAt(to))
		to.Prices = *in
	}
	return list
}
