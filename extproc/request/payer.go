package request

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
)

// maxKeyLength is the longest accepted own key, in bytes.
const maxKeyLength = 1024

// OwnKey is a request's own key for one provider. The zero value is none.
type OwnKey struct {
	Provider policy.ProviderID // "" if no provider accepts keys of requests
	Key      secret.Text
}

// IsSet reports whether the request has a key of its own.
func (k OwnKey) IsSet() bool { return k.Key.IsSet() }

// ParseOwnKey reads X-Bardo-Upstream-Key: a provider and its key, with a space between, or the key alone if only one provider accepts keys of requests.
func (v *View) ParseOwnKey() error {
	value := v.Head.Header.Get(header.UpstreamKey)
	if len(value) > maxKeyLength {
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Upstream-Key: longer than %d characters", maxKeyLength)
	}
	if value == "" {
		return nil
	}
	accepting := v.Config.TakesKeys
	name, key, named := strings.Cut(value, " ")
	switch i := slices.Index(accepting, policy.ProviderID(name)); {
	case named && i >= 0:
		v.OwnKey = OwnKey{accepting[i], secret.New(strings.TrimSpace(key))}
	case named && len(accepting) > 0:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Upstream-Key: expected a provider and its key, with a space between; these providers accept keys: %s", names(accepting))
	case len(accepting) > 1:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Upstream-Key: name the provider before its key, with a space between: one of %s", names(accepting))
	case len(accepting) == 1:
		v.OwnKey = OwnKey{accepting[0], secret.New(value)}
	default:
		v.OwnKey.Key = secret.New(value)
	}
	return nil
}

func names(ids []policy.ProviderID) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = string(id)
	}
	return strings.Join(list, ", ")
}

// FilterByPayer removes the candidates that do not accept the request's own key, or that need one when it has none, and zeroes the prices of those
// that the caller pays directly. Requests that pay for themselves cannot use users' own keys, because they have no user. The error, if none is left,
// is a fault.
func (v *View) FilterByPayer() error {
	if v.PaysItself {
		v.Found = slices.DeleteFunc(v.Found, func(to policy.Resolution) bool { return v.Config.Provider(to.Provider).Direct })
		if len(v.Found) == 0 {
			return fault.Newf(fault.KeyRestricted, "this model is served with keys of users of this gateway alone, which a payment is not for: use an API key")
		}
	}
	v.Found = slices.DeleteFunc(v.Found, func(to policy.Resolution) bool {
		p := v.Config.Provider(to.Provider)
		return v.OwnKey.IsSet() && v.OwnKey.Provider != to.Provider || !v.OwnKey.IsSet() && p.BYOK && !p.Endpoint.Key.IsSet()
	})
	if len(v.Found) == 0 {
		if v.OwnKey.IsSet() {
			return fault.Newf(fault.InvalidRequest, "X-Bardo-Upstream-Key: no provider of this model takes a key of the request's own")
		}
		return fault.Newf(fault.RequiresDirectKey, "the provider of this model takes only requests with a key of their own, in X-Bardo-Upstream-Key")
	}
	for i := range v.Found {
		if v.CallerPays(v.Found[i].Provider) {
			v.Found[i].Prices = policy.Prices{Known: true}
		}
	}
	return nil
}

// CallerPays reports whether the caller pays the provider directly: with a configured direct key, or the request's own.
func (v *View) CallerPays(id policy.ProviderID) bool {
	p := v.Config.Provider(id)
	return p.Direct || v.OwnKey.IsSet() && v.OwnKey.Provider == id
}

// SpreadAt returns the percentage added to a provider's cost: 0 if the caller pays it (D-51).
func (v *View) SpreadAt(id policy.ProviderID) int {
	if v.CallerPays(id) {
		return 0
	}
	return v.Config.Spread(&v.Principal)
}

// CachesByMarks reports whether a candidate's prompt cache stores only what a request marks. In OpenAI's format such models are recognised by a
// premium on cache writes; other models there cache automatically and ignore marks.
func (v *View) CachesByMarks(to *policy.Resolution) bool {
	p := v.Config.Provider(to.Provider)
	if p.Adapter.Dialect(*to, p.Endpoint, v.Request.Dialect) == chat.Anthropic {
		return true
	}
	return to.Prices.CacheWrite > to.Prices.Input
}

// MayCallProvider reports whether a provider that is not among the request's candidates may be called, by the credentials that it requires.
func (v *View) MayCallProvider(id policy.ProviderID) bool {
	p := v.Config.Provider(id)
	switch {
	case v.OwnKey.IsSet() && v.OwnKey.Provider != id, !v.OwnKey.IsSet() && p.BYOK && !p.Endpoint.Key.IsSet():
		return false
	case p.Direct && (!p.Engineered || v.PaysItself): // it gets only unchanged requests of its own users
		return false
	}
	return p.Free || !v.Principal.Anonymous || v.Config.Keyless == runtime.KeylessAnyone
}

// MayCall reports whether a candidate outside the request's order may be called: its provider accepts the available credentials, and the request's
// session may use the model.
func (v *View) MayCall(to *policy.Resolution) bool {
	return v.MayCallProvider(to.Provider) && v.MayUse(to.Model)
}

// MayUse reports whether the request's key and session may use a model.
func (v *View) MayUse(m policy.ModelID) bool {
	return v.Principal.Scope.AllowsModel(m) && (len(v.OnlyModels) == 0 || slices.Contains(v.OnlyModels, string(m)))
}

// SkipsLayers reports whether the first candidate uses a user's own key, configured without `engineered` or in the request: then all layers but those that
// protect, schemas and verification are skipped (D-39).
func (v *View) SkipsLayers() bool {
	id := v.Found[0].Provider
	return v.SkipsMasking() || v.CallerPays(id) && !v.Config.Provider(id).Direct
}

// SkipsMasking reports whether the first candidate uses a configured direct key without `engineered`. With a key in the request masking is not skipped, since a
// caller could avoid it by sending one.
func (v *View) SkipsMasking() bool {
	p := v.Config.Provider(v.Found[0].Provider)
	return p.Direct && !p.Engineered
}

// MayBeFree reports whether the request may cost the caller nothing, as far as its headers show.
func (v *View) MayBeFree() bool {
	return v.Config.Free[v.Principal.Tier] || len(v.Config.TakesKeys) > 0 && v.Head.Header.Get(header.UpstreamKey) != ""
}

// CheckKeyless returns a fault for a caller without an API key, unless all candidates are the demo provider or authentication is off.
func (v *View) CheckKeyless() error {
	if !v.Principal.Anonymous || v.Config.Keyless == runtime.KeylessAnyone {
		return nil
	}
	for _, to := range v.Found {
		if !v.Config.Provider(to.Provider).Free {
			return auth.Missing(v.Head.Header)
		}
	}
	return nil
}
