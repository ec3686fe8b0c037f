package extproc

import (
	"context"
	"errors"
	"time"

	"bardo.money/gateway/extproc/funds"
	"bardo.money/gateway/extproc/outcome"
	"bardo.money/gateway/extproc/ranking"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upload"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
)

func (g *Gateway) newExchange(d stream.Client, hd stream.Head) *exchange {
	return g.newExchangeAs(d, hd, "")
}

// newExchangeAs returns an exchange with the given request id, or a new one for "".
func (g *Gateway) newExchangeAs(d stream.Client, hd stream.Head, id string) *exchange {
	rt := g.runtime.Load()
	x := &exchange{
		View: request.View{Config: rt, Head: hd, Dialect: rt.Dialects[hd.Dialect()], Started: time.Now()}, gw: g, client: d, trace: record.Trace{Operation: telemetry.Unrouted},
	}
	if x.ID, x.Header = id, hd.Header; id == "" {
		x.ID = request.NewID(x.Started)
	}
	x.review.View, x.review.Events = &x.View, g.Events
	x.calls.Client, x.calls.Listener, x.calls.Owner = g.Egress, g.Listener, (*callOwner)(x)
	x.bill.Open(g.meter, x, x.ID)
	x.Side = (*layerCalls)(x)
	x.initReport(g)
	x.wantsTrailers = hd.Header.Get("te") == "trailers"
	g.live.Add(1)
	g.Metrics.ExchangeStarted()
	return x
}

// initReport prepares the request's report and funds.
func (x *exchange) initReport(g *Gateway) {
	x.report = report.Report{
		View: &x.View, Trace: &x.trace, Bill: &x.bill, Review: &x.review, Calls: &x.calls, Logger: g.Log, Metrics: g.Metrics, Operators: g.Events, Plane: g.api.Plane,
	}
	x.effects.Report = &x.report
	x.ranking = ranking.Ranking{Report: &x.report, Health: g.Health, Quarantine: &g.quarantine}
	x.outcome = outcome.Outcome{
		Report: &x.report, Sinks: &g.sinks, Owner: (*outcomeOwner)(x), Funds: &x.funds, Effects: &x.effects, Ranking: &x.ranking, Rounds: &x.rounds,
	}
	x.funds = funds.Funds{Report: &x.report, Meter: g.meter, Ledger: g.Ledger, Searches: &g.searches, Sessions: g.Sessions}
}

// serve calls run, which serves the request or the rest of it, and ends the exchange.
func (x *exchange) serve(ctx context.Context, run func() error) error {
	err := x.guarded(run)
	if l, ok := errors.AsType[*stream.Leaving](err); ok {
		return &stream.Leaving{Rest: func() error { return x.serve(ctx, l.Rest) }}
	}
	if x.outcome.Current != nil && x.trace.Settled == nil { // the sent part of the answer is charged, which may block
		return x.client.Leave(func() error { return x.end(ctx, err) })
	}
	return x.end(ctx, err)
}

// end answers a request that ended in an error, and closes the exchange.
func (x *exchange) end(ctx context.Context, err error) error {
	defer x.closeGuarded()
	if late, ok := errors.AsType[upload.AnsweredError](err); ok {
		x.outcome.RecordRefused(late.Fault)
		return nil
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, stream.ErrTruncated) || errors.Is(err, stream.ErrDisconnected) {
		return err
	}
	var f *fault.Fault
	if !errors.As(err, &f) {
		f = fault.From(err)
	}
	x.outcome.RecordRefused(f)
	return x.client.Reply(x.report.Error(f))
}

// close releases what the exchange still holds and writes its record.
func (x *exchange) close() {
	x.outcome.Finish()
	x.releaseResources()
}

// releaseResources releases what an exchange holds besides money.
func (x *exchange) releaseResources() {
	x.funds.ReleaseSession()
	x.leaveCoalesced()
	x.ranking.End()
	x.gw.live.Add(-1)
	x.calls.Close() // the stream of a late retry may still be reading the body
	x.body.Release()
}

// closeGuarded is close with panics logged: the client has its answer.
func (x *exchange) closeGuarded() {
	defer x.recoverPanic()
	x.close()
}
