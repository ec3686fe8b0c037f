package extproc

import (
	"context"
	"errors"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/side"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// Side calls: cheap models that layers call before the request itself is sent.

// layerCalls is the exchange behind pipeline.SideCaller. It belongs to the exchange's goroutine.
type layerCalls exchange

var _ pipeline.SideCaller = (*layerCalls)(nil)

// Offer implements pipeline.SideCaller. Deferred requests have no side calls: their layers run at each step, and only the last one is billed.
func (l *layerCalls) Offer(c *pipeline.SideCall) (o pipeline.SideOffer, ok bool) {
	x := (*exchange)(l)
	if x.isDeferred() {
		return o, false
	}
	list := side.Candidates(&x.View, c)
	if len(list) == 0 {
		return o, false
	}
	return pipeline.SideOffer{To: list[0], MaxCost: x.funds.MaxSideCost(list[:1], c)}, true
}

// Ask implements pipeline.SideCaller.
func (l *layerCalls) Ask(ctx context.Context, c *pipeline.SideCall) (a pipeline.SideAnswer, err error) {
	x := (*exchange)(l)
	if x.isDeferred() {
		return a, &pipeline.NoSideAnswer{Reason: pipeline.SideNoProvider}
	}
	list := side.Candidates(&x.View, c)
	list, done := x.ranking.RankSide(list)
	defer done()
	if len(list) == 0 {
		return a, &pipeline.NoSideAnswer{Reason: pipeline.SideNoProvider}
	}
	v, err := side.View(&x.View, c)
	if err != nil {
		return a, &pipeline.NoSideAnswer{Reason: pipeline.SideFailed}
	}
	if !x.funds.HoldSide(ctx, x.funds.MaxSideCost(list, c)) {
		return a, &pipeline.NoSideAnswer{Reason: pipeline.SideNoMoney}
	}
	began := time.Now()
	defer func() { x.Waited += time.Since(began) }()
	s := &sideCalling{x: x, c: c, view: v}
	s.calls.Client, s.calls.Listener, s.calls.Owner = x.calls.Client, x.calls.Listener, (*sideOwner)(x)
	defer s.calls.Close()
	return s.run(ctx, list)
}

// sideOwner is the attempt.Owner of an exchange's side calls.
type sideOwner exchange

// Written implements attempt.Owner: a side call's degradations are not reported.
func (*sideOwner) Written([]string) {}

// Panicked implements attempt.Owner.
func (o *sideOwner) Panicked(value any) error { return (*exchange)(o).panicked(value) }

// sideCalling is a side call in progress, with its attempts.
type sideCalling struct {
	x     *exchange
	c     *pipeline.SideCall
	view  *request.View
	calls attempt.Writer
}

// run calls the candidates until one answers or the timeout expires.
func (s *sideCalling) run(client context.Context, list []policy.Resolution) (pipeline.SideAnswer, error) {
	x := s.x
	ctx, cancel := context.WithTimeoutCause(client, s.c.Timeout, upstream.ErrTotalTimeout)
	defer cancel()
	reason := pipeline.SideFailed
	seq := upstream.Sequence{Candidates: list, MaxRetries: x.Config.MaxRetries, Once: true}
	for to := seq.Candidate(); to != nil; to = seq.Candidate() {
		x.trace.AttemptStarted = time.Now()
		v := side.For(s.view, to)
		a, f, err := s.attempt(ctx, v, to)
		switch {
		case attempt.IsPanic(err):
			f = &upstream.Failure{Provider: to.Provider, Kind: upstream.NotEncoded, Cause: err}
		case err != nil: // the client has disconnected
			s.bill(v, to, x.bill.InterruptedSide(v, to, &a.Count, x.trace.AttemptStarted), record.ClientClosed)
			return pipeline.SideAnswer{}, context.Cause(client)
		case f == nil:
			return s.recordAnswer(v, to, a)
		}
		s.recordFailure(to, f)
		again, ok := attempt.WithoutRefused(v, *to, f)
		x.outcome.RecordDecision(seq.Failed(upstream.State{Failure: f, Over: ctx.Err() != nil, Amendable: ok}, again))
		if ctx.Err() != nil {
			reason = pipeline.SideTimeout
		}
	}
	return pipeline.SideAnswer{}, &pipeline.NoSideAnswer{Reason: reason}
}

// attempt makes one attempt. The answer is never nil.
func (s *sideCalling) attempt(ctx context.Context, v *request.View, to *policy.Resolution) (*side.Answer, *upstream.Failure, error) {
	a := &side.Answer{}
	t := &attempt.Attempt{View: v, To: *to}
	open := func(status int, h header.List) attempt.Sink {
		a.Begin(&s.calls, t, s.c.MaxTokens, status, h)
		return a
	}
	f, err := s.calls.Do(ctx, t, open, attempt.Wait{})
	return a, f, err
}

// recordAnswer bills and records an answer.
func (s *sideCalling) recordAnswer(v *request.View, to *policy.Resolution, a *side.Answer) (pipeline.SideAnswer, error) {
	x := s.x
	took := time.Since(x.trace.AttemptStarted)
	call := s.bill(v, to, a.Count.Total(v.InputTokens()), record.OK)
	x.gw.Health.Report(policy.Result{Provider: to.Provider, Outcome: policy.Succeeded, Latency: took})
	x.gw.meter.Learn(to, a.Count.Reported.Output, took)
	if a.Refused || a.Text() == "" {
		return pipeline.SideAnswer{}, &pipeline.NoSideAnswer{Reason: pipeline.SideRefused}
	}
	return pipeline.SideAnswer{Text: a.Text(), Complete: a.Complete(), By: *to, Usage: call.Usage, Cost: call.Cost}, nil
}

// bill adds an attempt to the request's bill and trace.
func (s *sideCalling) bill(v *request.View, to *policy.Resolution, u chat.Usage, outcome string) *meter.Call {
	x := s.x
	if outcome == record.OK {
		x.outcome.RecordAttempt(*to, outcome, "", telemetry.Served)
	} else {
		x.trace.Attempts = append(x.trace.Attempts, record.Attempt{Provider: to.Provider, Model: to.Model, Outcome: outcome})
	}
	x.trace.MarkSide(s.c.Layer)
	call, capped := x.bill.AddSide(s.c.Layer, v, to, u)
	if capped {
		x.report.Capped(to, &u)
	}
	return call
}

// recordFailure records a failed attempt, which is not billed. A timeout does not count against the provider: a side call's is far shorter than a
// request's.
func (s *sideCalling) recordFailure(to *policy.Resolution, f *upstream.Failure) {
	x := s.x
	x.outcome.RecordAttempt(*to, f.String(), f.Reason(), f.Measure())
	x.trace.MarkSide(s.c.Layer)
	if attempt.ConcernsOwnKey(&x.View, f) {
		return
	}
	x.ranking.DemoteMissing(to, f)
	r := f.Result()
	if s.calls.CoolDownKey(f) || errors.Is(f.Cause, upstream.ErrTotalTimeout) {
		r.Outcome = policy.Ignored
	}
	x.gw.Health.Report(r)
}
