package extproc

import (
	"cmp"
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
)

// Models that a provider lists, and says that it does not have. For a while it is asked for them last. A 404 or a
// 410 does not touch its health, since nothing is wrong with it but its list; a redirect does, since its address may be wrong.

// quarantine puts a listed model where it is asked for last.
func (x *exchange) quarantine(to *policy.Resolution, f *upstream.Failure) {
	if x.isTokenCount() || !f.ModelMissing(to) || x.spokenTo(to) == chat.Completions || !x.lists(to) {
		return
	}
	until, ok := x.gw.gone.Hold(time.Now(), to.Provider, to.Upstream)
	if !ok {
		return
	}
	x.gw.Log.Warn("a provider does not have a model that it lists", "provider", string(to.Provider), "model", string(to.Model), "upstream", to.Upstream,
		"status", f.Status, "until", until)
	x.gw.Events.Emit("catalog:model_quarantined", "", quarantined{to.Provider, to.Model, to.Upstream, f.Status, until.UTC()})
}

// quarantined is what is told of a model that a provider does not have.
type quarantined struct {
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
	Upstream string            `json:"upstream"`
	Status   int               `json:"status"`
	Until    time.Time         `json:"until"`
}

// lists reports whether a provider is known to have a model: what callers make up is not held.
func (x *exchange) lists(to *policy.Resolution) bool {
	o, ok := x.rt.Resolver.Model(string(to.Model))
	return ok && slices.Contains(o.Providers, to.Provider)
}

// goneLast puts models that their provider says it does not have behind the others.
func (x *exchange) goneLast(order []policy.Resolution) []policy.Resolution {
	if x.gw.gone.Empty() || len(order) < 2 {
		return order
	}
	now := time.Now()
	held := func(to *policy.Resolution) int {
		if x.gw.gone.Until(now, to.Provider, to.Upstream).IsZero() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(order, func(a, b policy.Resolution) int { return cmp.Compare(held(&a), held(&b)) })
	return order
}
