package extproc

import (
	"context"
	"errors"
	"io"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
)

// The second model's answer is gathered beside the first one's.

// side is a call beside those of the order, under way.
type side struct {
	cancel context.CancelFunc
	done   chan struct{}
	began  time.Time // the last call went out
	noted  bool      // what came of it was noted

	to     policy.Resolution // once done: who was asked last
	a      *answer           // complete; nil if it failed
	part   *meter.Count      // what there was of it when it was stopped; nil if it was not
	failed []sideFailure
}

type sideFailure struct {
	to policy.Resolution
	f  *upstream.Failure
	d  upstream.Decision
}

// askSecond sends the request to the second model, too, if there is one. Its owner calls stop.
func (s *drivenStream) askSecond(ctx context.Context) {
	x := s.x
	if !x.verifies() {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	o := &side{cancel: cancel, done: make(chan struct{}), to: x.opinions.second}
	t := &try{to: o.to, plan: x.planFor(&o.to)}
	go func() {
		defer close(o.done)
		defer func() {
			if r := recover(); r != nil {
				o.a, o.failed = nil, append(o.failed, sideFailure{to: o.to, f: &upstream.Failure{Provider: o.to.Provider, Kind: upstream.NotEncoded, Cause: x.panicked(r)}})
			}
		}()
		o.run(ctx, x, t)
	}()
	s.second = o
}

// stop ends the call, and waits until it is over.
func (o *side) stop() {
	if o != nil {
		o.cancel()
		<-o.done
	}
}

// leaveSecond ends the second model's call. A client that disconnects before that answer was looked at pays for what there is of it.
func (s *drivenStream) leaveSecond() {
	o, x := s.second, s.x
	o.stop()
	if o == nil || x.settled != nil || x.fault != nil {
		return
	}
	switch {
	case o.a != nil && !o.a.counted:
		x.charge(o.a)
		x.answered(o.a, record.OK)
	case o.part != nil:
		x.bill.Add(&o.to, x.bill.Interrupted(&o.to, o.part, o.began))
		x.attempts = append(x.attempts, record.Attempt{Provider: o.to.Provider, Model: o.to.Model, Outcome: record.ClientClosed})
	}
}

// run asks, and again without what the provider refuses of the request, as often as the request may be tried again.
func (o *side) run(ctx context.Context, x *exchange, t *try) {
	for {
		o.began = time.Now()
		a, f := x.gather(ctx, t)
		if f == nil {
			o.a, a.began = a, o.began
			return
		}
		if ctx.Err() != nil && f.Kind != upstream.NotEncoded {
			if o.part = (&meter.Count{}); a != nil {
				o.part = &a.count
			}
			return
		}
		again, ok := x.without(t.to, f)
		d := upstream.Next(&upstream.State{Failure: f, Failures: len(o.failed) + 1, MaxRetries: x.rt.MaxRetries, Candidates: 1, Amendable: ok, Once: true})
		o.failed = append(o.failed, sideFailure{t.to, f, d})
		if d.Move != upstream.Amend {
			return
		}
		t = &try{to: again, plan: t.plan}
		o.to = again
	}
}

// without says how a candidate that refused a part of the request is asked for the rest; ok is false where it did not, or nobody knows how.
func (x *exchange) without(to policy.Resolution, f *upstream.Failure) (again policy.Resolution, ok bool) {
	if f.Kind != upstream.ByStatus || f.Err == nil {
		return to, false
	}
	if again, ok := x.withoutParams(to, f); ok {
		return again, true
	}
	p := x.rt.Providers[to.Provider]
	a, ok := p.Adapter.(provider.Amender)
	if !ok {
		return to, false
	}
	return a.Amend(x.Request, to, p.Endpoint, f.Err)
}

// gather calls a candidate through the egress listener and holds its answer, which is complete where there is no failure. It may run beside
// the exchange's own goroutine: it notes nothing.
func (x *exchange) gather(ctx context.Context, t *try) (*answer, *upstream.Failure) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(x.patience(t.to), func() { cancel(errFirstToken) })
	defer limit.Stop()
	req, err := x.egressRequest(ctx, t)
	if err != nil {
		return nil, &upstream.Failure{Provider: t.to.Provider, Kind: upstream.NotEncoded, Cause: err}
	}
	resp, err := x.gw.Egress.Do(req)
	if err == nil {
		defer closeBody(resp)
	}
	if err != nil && ctx.Err() != nil {
		return nil, &upstream.Failure{Provider: t.to.Provider, Kind: upstream.TimedOut, Cause: context.Cause(ctx)}
	}
	if err != nil || resp.StatusCode/100 != 2 {
		return nil, x.headFailure(ctx, t, resp, err)
	}
	a := x.newAnswer(t, resp.StatusCode, fromHTTP(resp.Header))
	a.holds, a.beside = true, true
	body := io.Reader(&paced{r: resp.Body, left: x.rt.MaxAnswer, seen: func() {
		if x.Request.Stream {
			limit.Reset(x.rt.Timeouts.Idle)
		}
	}})
	return a, a.readFrom(ctx, body)
}

// paced reads a body that may be only so long, and tells of each piece.
type paced struct {
	r    io.Reader
	left int64
	seen func()
}

// Read is io.Reader's.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if p.left -= int64(n); p.left < 0 {
		return n, upstream.ErrTooLong
	}
	p.seen()
	return n, err
}

// secondAnswer waits for the second model's answer, with heartbeats meanwhile, and notes what came of it. It is nil where that failed, or
// does not have the form that was asked for. The error is that the client left.
func (s *drivenStream) secondAnswer(ctx context.Context) (*answer, *judgement, error) {
	o := s.second
	if o == nil {
		return nil, nil, nil
	}
	if err := s.await(ctx, o); err != nil {
		return nil, nil, err
	}
	x := s.x
	if !o.noted {
		o.noted = true
		for i := range o.failed {
			x.sideFailed(&o.failed[i])
		}
	}
	if o.a == nil {
		return nil, nil, nil
	}
	if !o.a.counted {
		x.charge(o.a)
		x.answered(o.a, record.OK)
	}
	j := x.judged(o.a)
	if !x.passes(j) {
		return nil, nil, nil
	}
	return o.a, j, nil
}

// await waits for a call beside the others.
func (s *drivenStream) await(ctx context.Context, o *side) error {
	for {
		select {
		case <-o.done:
			return nil
		case <-s.beat.C:
			if err := s.heartbeat(s.x.Order[0]); err != nil {
				return err
			}
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, errTotal) {
				return cause
			}
			<-o.done // its time is over, too
			return nil
		}
	}
}

// sideFailed notes a call beside the others that did not answer.
func (x *exchange) sideFailed(s *sideFailure) {
	x.attempted(s.to, s.f.String(), s.f.Measure())
	x.attempts[len(x.attempts)-1].Reason = s.f.Reason()
	x.decided(s.d)
	if x.concernsOwnKey(s.f) {
		return
	}
	x.quarantine(&s.to, s.f)
	r := s.f.Result()
	if x.restKey(s.f) {
		r.Outcome = policy.Ignored
	}
	x.gw.Health.Report(r)
}

// judged is what the check of a complete answer comes to. One without a form is whatever it says.
func (x *exchange) judged(a *answer) *judgement {
	if a.form != nil {
		return x.judge(a)
	}
	j := &judgement{valid: true}
	for i := range a.held {
		switch ev := &a.held[i]; ev.Kind { //nolint:exhaustive // the rest is no word of it
		case chat.Text:
			j.raw = append(j.raw, ev.Text...)
		case chat.ToolStart, chat.Refusal:
			j.open = true
		case chat.Stop:
			j.open = j.open || ev.Reason == chat.StopPause
		}
	}
	j.verdicts = []structured.Verdict{{}}
	return j
}

// rescue gives the second model's answer where no other is any good; ok is false where there is none.
func (s *drivenStream) rescue(ctx context.Context) (ok bool, err error) {
	x := s.x
	b, j, err := s.secondAnswer(ctx)
	if b == nil || err != nil {
		return false, err
	}
	x.opinions.skip(skippedFailed)
	x.giveInstead(nil, b, j)
	x.tellVerified(&b.res)
	b.release(ctx, x.shown(b, j))
	if b.failure() != nil {
		return false, nil
	}
	return true, s.send(ctx, b)
}
