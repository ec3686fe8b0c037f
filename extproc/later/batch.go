package later

import (
	"bytes"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/batch"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/keyring"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
	"bardo.money/gateway/xds/state"
)

// A deferred request may be part of a provider's batch, at the provider's lower price. The batch's result answers the first attempt of a later run.

// BatchCandidate returns the first candidate with a batch API at which the request costs no more than at the first candidate without one; nil if
// there is none.
func BatchCandidate(v *request.View) *policy.Resolution {
	if _, tier := v.RequestedTier(); tier != "" || v.Rounds() > 0 || v.NamesStored || len(v.Order) == 0 {
		return nil
	}
	direct := maxCost(v, &v.Order[0])
	for i := range v.Order {
		to := &v.Order[i]
		p := v.Config.Provider(to.Provider)
		if p.Batches == "" || v.CallerPays(to.Provider) || !to.Prices.Known || to.Staked != nil {
			continue
		}
		cheaper := *to
		if cheaper.Prices = to.Prices.Percent(int64(p.BatchPct)); maxCost(v, &cheaper) <= direct {
			return to
		}
	}
	return nil
}

// maxCost returns the maximum cost of the request at a candidate.
func maxCost(v *request.View, to *policy.Resolution) policy.Pico {
	return resolve.WorstCost([]policy.Resolution{*to}, v.Request.MaxInput, int64(v.MaxTokens()), int64(v.Request.Choices))
}

// Planned returns a candidate's call as part of a batch, with a key of its provider; nil for a call that cannot be in one.
func Planned(v *request.View, to *policy.Resolution, call *attempt.Call, key keyring.ID) *deferred.Planned {
	p := v.Config.Provider(to.Provider)
	path, ok := strings.CutPrefix(call.Path, p.Endpoint.BasePath)
	if !ok || strings.Contains(path, "?") {
		return nil
	}
	if key == "" {
		key = keyring.Fingerprint(p.Endpoint.Key.Reveal())
	}
	return &deferred.Planned{
		Provider: to.Provider, Key: string(key), Path: path, Model: modelName(to), Beta: call.Header.Get("anthropic-beta"),
		Digest: callDigest(state.Cluster(p.Cluster), call.Path, call.Body), Masked: IsMasked(v.Log), Body: bytes.Clone(call.Body),
	}
}

// PinBatch moves the candidate to the front whose answer a batch has returned. If it is no longer a candidate the request is called anew.
func (l *Run) PinBatch(v *request.View) {
	if l.batch == nil {
		return
	}
	is := func(to policy.Resolution) bool { return modelName(&to) == l.batch.Model }
	i := slices.IndexFunc(v.Found, is)
	if i < 0 || v.Config.Provider(v.Found[i].Provider).Batches == "" {
		l.batch = nil
		return
	}
	v.Order = append([]policy.Resolution{v.Found[i]}, slices.DeleteFunc(slices.Clone(v.Order), is)...)
}

// modelName returns a candidate's model as named in a batch.
func modelName(to *policy.Resolution) string { return string(to.Provider) + "/" + string(to.Model) }

// Target returns a provider's batch API, with the key of a fingerprint; ok is false if it is no longer configured. The caller sets its client.
func Target(rt *runtime.Config, id policy.ProviderID, key string) (t batch.Target, ok bool) {
	p := rt.Provider(id)
	if p.Batches == "" {
		return t, false
	}
	for _, k := range append([]provider.Secret{p.Endpoint.Key}, p.Keys...) {
		if string(keyring.Fingerprint(k.Reveal())) != key {
			continue
		}
		at := p.Endpoint
		at.Key = k
		return batch.Target{
			Form: p.Batches, Provider: id, Authority: at.Authority, BasePath: at.BasePath, Header: p.Adapter.Ping(at).Header, Cluster: p.Cluster,
			Exchange: rt.EgressSecret + ".deferred",
		}, true
	}
	return t, false
}
