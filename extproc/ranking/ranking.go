// Package ranking sorts the candidates of a request in the order in which they are called: those of healthy providers first, models that their
// providers turned out to lack last, and without providers that an operator disabled.
package ranking

import (
	"cmp"
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

// Health orders providers. Safe for concurrent use.
type Health interface {
	// Plan orders one request's candidates, healthy ones first, without disabled ones. An unhealthy provider that is due for a trial keeps its place
	// for this request; done ends the trial and must be called when the request has ended.
	Plan(candidates []policy.ProviderID) (order []policy.ProviderID, done func())
}

// Ranking is the order of one request's candidates. The state machine that serves the request owns it, and everything that it points to. Not safe for
// concurrent use.
type Ranking struct {
	*report.Report

	Health     Health
	Quarantine *catalog.Quarantine // models that their providers lack; shared by all requests

	end func() // ends the trials of unhealthy providers; nil for none
}

// Arrange sets the call order of the candidates that were found. The error is a fault.
func (r *Ranking) Arrange() error {
	if r.Order = r.demote(r.Rank(r.Found)); len(r.Order) == 0 {
		return fault.Newf(fault.NoProvider, "every provider of this model is disabled")
	}
	return nil
}

// Rank sorts candidates by health and removes those that an operator disabled. Among equally healthy ones, the provider whose prompt cache has the
// conversation comes first, if it serves the first candidate's model. The request may become the trial of a provider that is down, which then keeps
// its place until End.
func (r *Ranking) Rank(found []policy.Resolution) []policy.Resolution {
	return r.plan(r.WarmFirst(found))
}

// RankAdditional sorts candidates that are called besides the request's order, as Arrange does.
func (r *Ranking) RankAdditional(list []policy.Resolution) []policy.Resolution {
	if len(list) == 0 {
		return nil
	}
	return r.demote(r.plan(list))
}

func (r *Ranking) plan(list []policy.Resolution) []policy.Resolution {
	order, done := r.Health.Plan(request.ProvidersOf(list))
	if earlier := r.end; earlier != nil {
		r.end = func() { earlier(); done() }
	} else {
		r.end = done
	}
	return request.ByHealth(list, order)
}

// RankSide sorts the candidates of a side call, as Arrange does. The caller calls done when the call has ended.
func (r *Ranking) RankSide(list []policy.Resolution) (order []policy.Resolution, done func()) {
	ids, done := r.Health.Plan(request.ProvidersOf(list))
	return r.demote(request.ByHealth(list, ids)), done
}

// End ends the request's trials.
func (r *Ranking) End() {
	if r.end != nil {
		r.end()
	}
}

// demote moves models that their providers lack behind the others.
func (r *Ranking) demote(order []policy.Resolution) []policy.Resolution {
	if r.Quarantine.Empty() || len(order) < 2 {
		return order
	}
	now := time.Now()
	held := func(to *policy.Resolution) int {
		if r.Quarantine.Until(now, to.Provider, to.Upstream).IsZero() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(order, func(a, b policy.Resolution) int { return cmp.Compare(held(&a), held(&b)) })
	return order
}

// DemoteMissing demotes a listed model for a while, after a failure which says that its provider does not have it.
func (r *Ranking) DemoteMissing(to *policy.Resolution, f *upstream.Failure) {
	if r.IsTokenCount() || !f.ModelMissing(to) || r.DialectAt(to) == chat.Completions || !r.InCatalog(to) {
		return
	}
	until, ok := r.Quarantine.Hold(time.Now(), to.Provider, to.Upstream)
	if !ok {
		return
	}
	r.Logger.Warn("a provider does not have a model that it lists", "provider", string(to.Provider), "model", string(to.Model), "upstream", to.Upstream,
		"status", f.Status, "until", until)
	record.EventQuarantined.Emit(r.Operators, "", record.Quarantined{
		Provider: to.Provider, Model: to.Model, Upstream: to.Upstream, Status: f.Status, Until: until.UTC(),
	})
}
