package request

import (
	"slices"
	"strconv"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// RequestedModel returns the model as the client wrote it.
func (v *View) RequestedModel() string {
	if len(v.Found) == 0 {
		return v.Request.Model
	}
	return v.ClientModel
}

// WarmFirst moves the provider that served the conversation's last turn to the front, if it matches the first candidate: its prompt cache is warm.
func (v *View) WarmFirst(found []policy.Resolution) []policy.Resolution {
	i := slices.IndexFunc(found, func(r policy.Resolution) bool { return r.Provider == v.Affinity.Provider })
	if i < 1 || !v.matchesFirst(v.Affinity.Provider) {
		return found
	}
	return slices.Concat(found[i:i+1], found[:i], found[i+1:])
}

// matchesFirst reports whether a provider has the first candidate's model, with the same privacy, no more degraded, for no higher price.
func (v *View) matchesFirst(id policy.ProviderID) bool {
	first := &v.Found[0]
	for i := range v.Found {
		to := &v.Found[i]
		if to.Provider == id {
			return to.Model == first.Model && to.Private == first.Private && len(to.Degraded) <= len(first.Degraded) &&
				to.Prices.Input <= first.Prices.Input && to.Prices.Output <= first.Prices.Output
		}
	}
	return false
}

// ProvidersOf returns the providers of candidates, in order, each once.
func ProvidersOf(found []policy.Resolution) []policy.ProviderID {
	ids := make([]policy.ProviderID, 0, len(found))
	for i := range found {
		if !slices.Contains(ids, found[i].Provider) {
			ids = append(ids, found[i].Provider)
		}
	}
	return ids
}

// ByHealth sorts candidates by the health of their providers. order lists the providers that may be called, healthy ones first; candidates of other
// providers are removed. Candidates of healthy providers keep their order, even if a provider has several; those of demoted providers come last.
func ByHealth(found []policy.Resolution, order []policy.ProviderID) []policy.Resolution {
	ids := ProvidersOf(found)
	if slices.Equal(ids, order) {
		return found
	}
	out := make([]policy.Resolution, 0, len(found))
	for i := range found {
		if at := slices.Index(order, found[i].Provider); at >= 0 && !isDemoted(ids, order, at) {
			out = append(out, found[i])
		}
	}
	for at, id := range order {
		for i := range found {
			if found[i].Provider == id && isDemoted(ids, order, at) {
				out = append(out, found[i])
			}
		}
	}
	return out
}

// isDemoted reports whether order[at] comes after a provider in order that it precedes in ids.
func isDemoted(ids, order []policy.ProviderID, at int) bool {
	was := slices.Index(ids, order[at])
	return slices.ContainsFunc(order[:at], func(id policy.ProviderID) bool { return slices.Index(ids, id) > was })
}

// InCatalog reports whether the catalog lists a candidate's model at its provider: no state is kept for model names that clients invent.
func (v *View) InCatalog(to *policy.Resolution) bool {
	o, ok := v.Config.Resolver.Model(string(to.Model))
	return ok && slices.Contains(o.Providers, to.Provider)
}

// AffinityHeader returns the header by which Envoy hashes a conversation to one of a provider's endpoints; empty without affinity.
func (v *View) AffinityHeader() header.List {
	if v.Affinity.Hash == 0 {
		return nil
	}
	return header.List{{Name: state.HeaderAffinity, Value: strconv.FormatUint(v.Affinity.Hash, 16)}}
}
