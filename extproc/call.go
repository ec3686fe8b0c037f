package extproc

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
)

// routeAndCall selects the candidates and calls them.
func (x *exchange) routeAndCall(ctx context.Context) error {
	if m := x.localModel(); m != nil {
		return x.client.Leave(func() error {
			if err := x.funds.MayUseLocal(ctx); err != nil {
				return err
			}
			return x.embed(ctx, m)
		})
	}
	if x.mayClassify() {
		return x.client.Leave(func() error {
			x.classify(ctx)
			return x.decideAndCall(ctx)
		})
	}
	return x.decideAndCall(ctx)
}

// decideAndCall finds the candidates and calls them.
func (x *exchange) decideAndCall(ctx context.Context) error {
	if err := x.candidates(ctx); err != nil {
		return err
	}
	if x.paysItself() {
		return x.client.Leave(func() error {
			if err := x.requirePayment(ctx); err != nil {
				return err
			}
			return x.prepareAndCall(ctx)
		})
	}
	if x.layersWait() {
		return x.client.Leave(func() error { return x.prepareAndCall(ctx) })
	}
	return x.prepareAndCall(ctx)
}

// prepareAndCall runs the layers and calls the candidates.
func (x *exchange) prepareAndCall(ctx context.Context) error {
	x.client.Turn()
	if err := x.prepare(ctx); err != nil {
		return err
	}
	x.client.Turn()
	switch {
	case x.IsTokenCount() && !x.countsUpstream():
		return x.client.Leave(x.countTokens)
	case x.Answer != nil:
		return x.client.Leave(func() error { return x.replay(ctx, x.Answer, x.cacheStatus()) })
	case x.trace.Cache == record.CacheCoalesced:
		return x.client.Leave(func() error { return x.waitForLeader(ctx) })
	}
	if !x.reserveNow() {
		return x.client.Leave(func() error { return x.payAndCall(ctx) })
	}
	return x.payAndCall(ctx)
}

// reserveNow reserves the request's maximum cost, if that does not block.
func (x *exchange) reserveNow() bool {
	if x.funds.InSession() {
		return false
	}
	if x.IsTokenCount() || !x.Principal.Prepaid {
		return true
	}
	if x.funds.OwnKeysPay(x.Order) {
		return x.bill.ReserveNow(0)
	}
	return x.bill.ReserveNow(x.funds.ToReserve())
}

// payAndCall checks the limits, makes the reservation, and calls the candidates.
func (x *exchange) payAndCall(ctx context.Context) error {
	if !x.IsTokenCount() {
		if err := x.funds.Afford(ctx, x.ranking.Rank); err != nil {
			return err
		}
	}
	if x.deferral.by > 0 {
		return x.client.Leave(func() error { return x.acceptDeferred(ctx) })
	}
	return x.call(ctx)
}

// call calls the candidates, on the driven or the native path.
func (x *exchange) call(ctx context.Context) error {
	x.client.Turn()
	x.planHedge()
	switch {
	case !x.driven():
		return x.forwardViaEnvoy(ctx)
	case x.client.Caller() != nil && x.streamsOnThread():
		return x.serveDriven(ctx)
	}
	return x.client.Leave(func() error { return x.serveDriven(ctx) })
}

// streamsOnThread reports whether a stream.Caller can call the first candidate: its answer is passed on as it arrives, and nothing else is awaited.
func (x *exchange) streamsOnThread() bool {
	switch {
	case x.hedgeAt > 0 || !x.Request.Stream || x.WholeAnswer || x.report.Later != nil || x.Rounds() > 0:
		return false
	case x.review.Schema != nil || x.review.MayReplaceAnswer() || x.review.Verifies():
		return false
	}
	return x.calls.RunsOnThread(&x.View, &x.Order[0])
}

// countsUpstream reports whether the first candidate counts tokens itself.
func (x *exchange) countsUpstream() bool {
	p := x.Config.Provider(x.Order[0].Provider)
	return p.CountsTokens && p.Adapter.Dialect(x.Order[0], p.Endpoint, x.Request.Dialect) == x.Request.Dialect
}

// waitForLeader serves a coalesced request: it waits for the answer of another request's call. A stream that waits long gets heartbeats; from the
// first one on it is on the driven path.
func (x *exchange) waitForLeader(ctx context.Context) error {
	late := time.NewTimer(x.Config.Timeouts.Total)
	defer late.Stop()
	s := x.newDriven()
	defer s.beat.Stop()
	beat := s.beat.C()
	if !x.Request.Stream { // nothing may come before a JSON body
		beat = nil
	}
	since := time.Now()
	for {
		select {
		case t := <-x.Cache.Outcome():
			x.Waited = time.Since(since)
			return s.afterWait(ctx, t)
		case <-beat:
			if err := s.heartbeat(x.Found[0]); err != nil {
				return err
			}
		case <-late.C:
			return s.fail(fault.New(fault.UpstreamTimeout, "the answer that this request waited for did not come in time", upstream.ErrTotalTimeout))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// afterWait serves a request after its wait: with the leader's answer, the leader's failure, or a call of its own.
func (s *drivenStream) afterWait(ctx context.Context, t cache.Outcome) error {
	x := s.x
	if t.Entry != nil {
		return s.replay(ctx, t.Entry, record.CacheCoalesced)
	}
	x.trace.Cache = record.CacheMiss
	if t.Err != nil {
		if e := x.Cache.StaleFallback(ctx); e != nil {
			return s.replay(ctx, e, record.CacheStale)
		}
		return s.fail(fault.From(t.Err))
	}
	if err := x.becomeLeader(ctx); err != nil {
		return s.fail(fault.From(err))
	}
	if s.begun || x.driven() {
		return s.run(ctx)
	}
	return x.forwardViaEnvoy(ctx)
}

// becomeLeader prepares a waiting request for a call of its own.
func (x *exchange) becomeLeader(ctx context.Context) error {
	if err := x.ranking.Arrange(); err != nil {
		return err
	}
	if err := x.funds.Afford(ctx, x.ranking.Rank); err != nil {
		return err
	}
	x.planHedge()
	return nil
}
