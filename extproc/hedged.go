package extproc

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hedge"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Hedged requests on the driven path: a second candidate is called if the first gives no content for a while (package hedge).

// planHedge decides whether the request may be hedged, and counts it for the share of requests that are.
func (x *exchange) planHedge() {
	if x.Config.Hedging.After <= 0 || x.Request.Op != chat.Generate {
		return
	}
	x.gw.hedges.Request(time.Now())
	if x.report.Later == nil && !x.review.Verifies() {
		x.hedgeAt = x.HedgeAt()
	}
}

// hedging is a request whose first candidate is called, and perhaps a second beside it.
type hedging struct {
	s     *drivenStream
	race  *hedge.Race
	began time.Time // of the second call
	t     *attempt.Attempt
	probe *reading.Answer // the second call's answer, until it wins
	a     *reading.Answer // the second call's answer, once it has won
}

var _ hedge.Owner = (*hedging)(nil)

// attemptHedged is attempt for the first candidate. at is the index of the other one.
func (s *drivenStream) attemptHedged(ctx context.Context, seq *upstream.Sequence, at int) (*upstream.Failure, error) {
	x, first := s.x, *seq.Candidate()
	h := &hedging{s: s, t: &attempt.Attempt{To: seq.Candidates[at]}}
	h.race = &hedge.Race{After: x.Config.Hedging.After, Owner: h}
	s.race = h.race
	s.beat.C() // both calls use its timer
	var a *reading.Answer
	r := h.race.Run(ctx, func(ctx context.Context) (f *upstream.Failure, err error) {
		a, f, err = s.rounds(ctx, func() *attempt.Attempt { return x.nextAttempt(&first) })
		return f, err
	}, h.call)
	s.race = nil
	if r.Begun {
		seq.Hedged(at, r.Side == hedge.Second, r.Other)
	}
	if r.Begun && !r.Decided {
		x.reportHedge(record.HedgeFailed, &h.t.To)
	}
	if r.Open && ctx.Err() != nil {
		h.bill(&h.t.To, h.probe, h.began, record.ClientClosed, "")
	}
	if r.Side == hedge.Second {
		if a = h.a; attempt.IsPanic(r.Err) {
			r.Err = x.broken(r.Err)
		}
	}
	if r.Failure != nil || r.Err != nil || !a.Whole() {
		return r.Failure, r.Err
	}
	return s.finishHeld(ctx, a)
}

// call makes the second call.
func (h *hedging) call(ctx context.Context) (*upstream.Failure, error) {
	s, x := h.s, h.s.x
	open := func(status int, head header.List) attempt.Sink {
		defer h.race.Lock()()
		h.probe = reading.New(&x.report, &x.rounds, h.t, status, head)
		h.probe.Holds, h.probe.Parallel = true, true
		return h.race.SecondSink(collector{h.probe}, status/100 == 2, func() hedge.Answer { return h.adopt(status, head) })
	}
	beat := func() error {
		defer h.race.Lock()()
		if h.a == nil {
			return s.heartbeat(x.Order[0])
		}
		return s.heartbeat(h.t.To)
	}
	return x.calls.Do(ctx, h.t, open, attempt.Wait{Beat: s.beat, OnHeartbeat: beat})
}

// adopt makes the second call's answer the client's.
func (h *hedging) adopt(status int, head header.List) hedge.Answer {
	x := h.s.x
	h.a = reading.New(&x.report, &x.rounds, h.t, status, head)
	h.a.Began, x.outcome.Current = h.began, h.a
	return &clientSink{h.a, h.s, h.s.deliver}
}

// promote makes the second call the request's call in progress.
func (h *hedging) promote() {
	x := h.s.x
	x.bill.Begin(&h.t.To, h.began)
	x.trace.AttemptStarted = h.began
}

// maxHedgeHold is how long the money for a second call may take to reserve: the first one's answer waits meanwhile.
const maxHedgeHold = 250 * time.Millisecond

// Begin implements hedge.Owner.
func (h *hedging) Begin(ctx context.Context) bool {
	x, now := h.s.x, time.Now()
	if !x.gw.hedges.Take(now, x.Config.Hedging.SharePct) {
		x.reportHedge(record.HedgeNoShare, &h.t.To)
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, maxHedgeHold)
	defer cancel()
	if !x.funds.HoldHedge(ctx, &x.Order[0], &h.t.To) {
		x.gw.hedges.Return(now)
		x.reportHedge(record.HedgeNoMoney, &h.t.To)
		return false
	}
	h.t, h.began = x.newAttempt(&x.View, &h.t.To, nil), now
	return true
}

// Failed implements hedge.Owner.
func (h *hedging) Failed(s hedge.Side, f *upstream.Failure) {
	x := h.s.x
	if s == hedge.First {
		x.outcome.RecordFailed(x.Order[0], f)
		x.outcome.Current = x.lastRound
		h.promote()
	} else {
		started := x.trace.AttemptStarted
		x.trace.AttemptStarted = h.began
		x.outcome.RecordFailure(h.t.To, f)
		x.trace.AttemptStarted = started
	}
	x.trace.SetDecision(record.NextHedge, "another candidate was called as well")
}

// Won implements hedge.Owner: it bills the call that was cancelled, as that of a client that disconnects.
func (h *hedging) Won(s hedge.Side, cancelled bool) {
	x := h.s.x
	if s == hedge.First {
		if cancelled {
			h.bill(&h.t.To, h.probe, h.began, record.HedgeCancelled, "another candidate answered first")
		}
		x.reportHedge(record.HedgeLost, &h.t.To)
		return
	}
	if cancelled {
		to, began := x.bill.InFlight()
		a := x.outcome.Current
		x.bill.EndCall()
		x.outcome.Current = x.lastRound
		h.bill(to, a, began, record.HedgeCancelled, "another candidate answered first")
		h.promote()
	}
	x.reportHedge(record.HedgeWon, &h.t.To)
}

// bill bills and records a call that did not end by itself. a is the part of its answer that arrived; nil for none.
func (h *hedging) bill(to *policy.Resolution, a *reading.Answer, began time.Time, outcome, reason string) {
	x := h.s.x
	var c *meter.Count
	if a != nil {
		c = &a.Count
	}
	u := x.bill.InterruptedSide(x, to, c, began)
	maxOutput := int64(x.OutputTokens(*to) + x.ThinkingTokens([]policy.Resolution{*to})) // as reserved
	u.Output, u.Reasoning = min(u.Output, maxOutput), min(u.Reasoning, maxOutput)
	if _, capped := x.bill.AddSide(meter.Hedge, x, to, u); capped {
		x.report.Capped(to, &u)
	}
	x.trace.Attempts = append(x.trace.Attempts, record.Attempt{
		Provider: to.Provider, Model: to.Model, Outcome: outcome, Reason: reason, Side: meter.Hedge, Began: began, Took: time.Since(began),
	})
}

// Panicked implements hedge.Owner.
func (h *hedging) Panicked(value any) error { return attempt.PanicError{Cause: h.s.x.panicked(value)} }

// reportHedge records, counts and announces what became of the second call.
func (x *exchange) reportHedge(outcome string, to *policy.Resolution) {
	x.trace.Hedge = &record.Hedge{Outcome: outcome, Provider: to.Provider, Model: to.Model}
	x.gw.Metrics.Hedged(outcome)
	x.report.Hedged()
}
