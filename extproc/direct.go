package extproc

import (
	"net/http"
	"slices"

	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

// Requests that users pay themselves: at providers of their own keys, or with a key that they bring along. They cost nothing here. Those
// at a key that does not ask for more pass as they are.

// headerUpstreamKey brings a user's own key for a provider that takes such keys.
const headerUpstreamKey = "x-bardo-upstream-key"

// longestKey bounds a key that a request brings.
const longestKey = 1024

// hearKey reads the key that a request brings.
func (x *exchange) hearKey() error {
	key := x.head.Header.Get(headerUpstreamKey)
	if len(key) > longestKey {
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Upstream-Key: longer than %d characters", longestKey)
	}
	x.ownKey = secret.New(key)
	return nil
}

// settleWhoPays leaves out the candidates that the request's own key is not for, or that have none, and takes the price off those that
// their users pay.
func (x *exchange) settleWhoPays() error {
	x.Found = slices.DeleteFunc(x.Found, func(to policy.Resolution) bool {
		p := x.rt.Providers[to.Provider]
		return x.ownKey.IsSet() && !p.BYOK || !x.ownKey.IsSet() && p.BYOK && !p.Endpoint.Key.IsSet()
	})
	if len(x.Found) == 0 {
		if x.ownKey.IsSet() {
			return fault.Newf(fault.InvalidRequest, "X-Bardo-Upstream-Key: no provider of this model takes a key of the request's own")
		}
		return fault.Newf(fault.RequiresDirectKey, "the provider of this model takes only requests with a key of their own, in X-Bardo-Upstream-Key")
	}
	for i := range x.Found {
		if x.direct(x.Found[i].Provider) {
			x.Found[i].Prices = policy.Prices{Known: true}
		}
	}
	return nil
}

// direct reports whether the caller pays a provider itself.
func (x *exchange) direct(id policy.ProviderID) bool {
	p := x.rt.Providers[id]
	return p.Direct || p.BYOK && x.ownKey.IsSet()
}

// spreadAt is the percentage on a provider's cost: none where the caller pays it (D-51).
func (x *exchange) spreadAt(id policy.ProviderID) int {
	if x.direct(id) {
		return 0
	}
	return x.rt.spread(x.Principal.Tier)
}

// bare reports whether the request goes to its provider as it is, without any context engineering.
func (x *exchange) bare() bool {
	p := x.rt.Providers[x.Found[0].Provider]
	return p.Direct && !p.Engineered
}

// concernsOwnKey reports whether a failure is about a key that the request brought, or what that may have: it says nothing about the
// provider, which others use with keys of their own.
func (x *exchange) concernsOwnKey(f *upstream.Failure) bool {
	if !x.ownKey.IsSet() || f.Kind != upstream.ByStatus {
		return false
	}
	switch f.Status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests:
		return true
	}
	return false
}

// ownKeyRefused tells a caller that the key that it brought is no good; nil if that is not what happened.
func (x *exchange) ownKeyRefused(fs []*upstream.Failure) *fault.Fault {
	if len(fs) == 0 || !x.concernsOwnKey(fs[len(fs)-1]) {
		return nil
	}
	switch last := fs[len(fs)-1]; last.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Newf(fault.InvalidAPIKey, "provider %s refused the key in X-Bardo-Upstream-Key", last.Provider)
	case http.StatusPaymentRequired:
		return fault.Newf(fault.InsufficientFunds, "the key in X-Bardo-Upstream-Key cannot pay at provider %s", last.Provider)
	}
	return nil
}

// costDirect stands in X-Bardo-Cost of what its caller pays itself.
const costDirect = "direct"
