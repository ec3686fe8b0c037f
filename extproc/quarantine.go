package extproc

import (
	"cmp"
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
)

// Models that a provider lists but answers that it does not have. For a while the provider is called for them last. A 404 or 410 does not affect its
// health: only its list is wrong. A redirect does: its address may be wrong.

// quarantine has a listed model called last for a while, after a failure that says it is missing.
func (x *exchange) quarantine(to *policy.Resolution, f *upstream.Failure) {
	if x.IsTokenCount() || !f.ModelMissing(to) || x.DialectAt(to) == chat.Completions || !x.InCatalog(to) {
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

// demoteQuarantined moves quarantined models behind the others.
func (x *exchange) demoteQuarantined(order []policy.Resolution) []policy.Resolution {
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
