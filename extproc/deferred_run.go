package extproc

import (
	"context"
	"net/http"

	"bardo.money/gateway/extproc/batch"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/later"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// deferredRunner serves deferred requests.
type deferredRunner struct{ *Gateway }

var _ deferred.Runner = deferredRunner{}

// newRun returns an exchange that serves a deferred request.
func (g *Gateway) newRun(ctx context.Context, r *deferred.Request, run *deferred.Run) (*exchange, *later.Client) {
	d := &later.Client{Body: r.Body}
	x := g.newExchangeAs(d, r.Head, r.ID)
	l := later.NewRun(ctx, run, g.listener().Transport, x.Config.MaxAnswer, func() bool { return later.IsMasked(x.Log) })
	x.report.Later, x.Deferred = l, true
	x.calls.Client = &http.Client{Transport: l, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	x.calls.Listener = nil
	x.review.Events, x.Repeated, x.Unread = g.Events.Hold(), true, run.Cancelled
	return x, d
}

// Answer implements deferred.Runner.
func (g deferredRunner) Answer(ctx context.Context, r *deferred.Request, run *deferred.Run) deferred.Served {
	x, d := g.newRun(ctx, r, run)
	err := x.serve(ctx, func() error {
		if err := x.prepareRun(ctx, r); err != nil {
			return err
		}
		return x.serveDriven(ctx)
	})
	s := x.report.Later.Served(err, d.Got)
	if !s.Again {
		x.report.Events().Release()
	}
	return s
}

// prepareRun does the steps before a call, except for those that were done when the request was accepted: limits and reservation.
func (x *exchange) prepareRun(ctx context.Context, r *deferred.Request) error {
	e, err := endpoint.Find(&x.Head)
	if err != nil {
		return err
	}
	x.trace.Operation = e.Operation()
	if err := x.identifyDeferred(ctx, r); err != nil {
		return err
	}
	if err := x.parseHeaders(); err != nil {
		return err
	}
	if err := x.read(e, false); err != nil {
		return err
	}
	if err := x.candidates(ctx); err != nil {
		return err
	}
	if err := x.prepare(ctx); err != nil {
		return err
	}
	x.report.Later.PinBatch(&x.View)
	if x.funds.OwnKeysPay(x.Order) {
		return x.bill.Reserve(ctx, 0)
	}
	if err := x.bill.Reserve(ctx, x.funds.MaxCharge(x.Order)); err != nil {
		return err
	}
	x.funds.LimitOutput()
	return nil
}

// identifyDeferred finds the account of a deferred request. If its key was revoked, only an answer that exists already is served.
func (x *exchange) identifyDeferred(ctx context.Context, r *deferred.Request) error {
	row, ok, err := x.gw.Ledger.Key(ctx, r.Account)
	if err != nil {
		return fault.New(fault.Unavailable, "API keys cannot be read at the moment", err)
	}
	if !ok || row.Revoked() && x.report.Later.Calls() == 0 {
		return fault.Newf(fault.InvalidAPIKey, "this API key was revoked")
	}
	x.Principal = row.Principal()
	x.Principal.ReputationSpread = x.gw.Identities.Spread(x.Principal.Account)
	x.bill.PaidDeferred(x.Principal, x.Config.Spread(&x.Principal))
	return nil
}

// Plan implements deferred.Runner.
func (g deferredRunner) Plan(ctx context.Context, r *deferred.Request) (p *deferred.Planned, err error) {
	x, _ := g.newRun(ctx, r, &deferred.Run{})
	defer x.abandon()
	err = x.guarded(func() error {
		if err := x.prepareRun(ctx, r); err != nil {
			return err
		}
		p, err = x.planBatch()
		return err
	})
	return p, err
}

// abandon ends an exchange without reporting it.
func (x *exchange) abandon() {
	defer x.recoverPanic()
	x.bill.Release()
	x.gw.Metrics.ExchangeEnded()
	x.releaseResources()
}

// planBatch encodes the request's call as part of a batch. It returns nil if there is no batch, or the request cannot be part of one.
func (x *exchange) planBatch() (*deferred.Planned, error) {
	if x.review.MayReplaceAnswer() {
		return nil, nil //nolint:nilnil // nothing is a plan
	}
	to := later.BatchCandidate(&x.View)
	if to == nil {
		return nil, nil //nolint:nilnil // nothing is a plan
	}
	call, err := x.encode(nil, to)
	if err != nil {
		return nil, err
	}
	return later.Planned(&x.View, to, &call, x.calls.LastKey(to.Provider).ID()), nil
}

// Expired implements deferred.Runner.
func (g deferredRunner) Expired(r *deferred.Request) stream.Reply {
	rt := g.runtime.Load()
	x := &exchange{View: request.View{Config: rt, Dialect: rt.Dialects[r.Dialect]}, gw: g.Gateway}
	x.ID = r.ID
	x.initReport(g.Gateway)
	x.bill.Open(g.meter, x, x.ID)
	return x.report.Error(fault.Newf(fault.UpstreamTimeout, "no provider answered this deferred request before its deadline"))
}

// Target implements deferred.Runner.
func (g deferredRunner) Target(id policy.ProviderID, key string) (t batch.Target, ok bool) {
	t, ok = later.Target(g.runtime.Load(), id, key)
	t.Client = g.listener()
	return t, ok
}

// Idle implements deferred.Runner.
func (g deferredRunner) Idle() bool { return g.Live() == 0 }

// Draining implements deferred.Runner.
func (g deferredRunner) Draining() bool { return g.Gateway.Draining() }
