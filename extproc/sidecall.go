package extproc

import (
	"context"
	"errors"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
)

// startVerifier calls the verifier concurrently, if there is one. The caller calls endVerifier.
func (s *drivenStream) startVerifier(ctx context.Context) {
	x := s.x
	if !x.review.Verifies() {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	o := &sideCall{cancel: cancel, done: make(chan struct{}), to: x.review.Verification.Verifier}
	t := x.newAttempt(&x.View, &o.to, nil)
	go func() {
		defer close(o.done)
		defer func() {
			if r := recover(); r != nil {
				o.a, o.failed = nil, append(o.failed, failedSideCall{to: o.to, f: &upstream.Failure{Provider: o.to.Provider, Kind: upstream.NotEncoded, Cause: x.panicked(r)}})
			}
		}()
		o.run(ctx, x, t)
	}()
	s.verifier = o
}

// stop cancels the call and waits for its end.
func (o *sideCall) stop() {
	if o != nil {
		o.cancel()
		<-o.done
	}
}

// endVerifier ends the verifier's call. If the client disconnected during verification, the part that was received is billed.
func (s *drivenStream) endVerifier() {
	o, x := s.verifier, s.x
	o.stop()
	if o == nil || x.trace.Settled != nil || x.trace.Fault != nil {
		return
	}
	switch {
	case o.a != nil && !o.a.Counted:
		x.outcome.Charge(o.a)
		x.outcome.RecordAnswered(o.a, record.OK)
	case o.part != nil:
		x.bill.Add(&o.to, x.bill.Interrupted(&o.to, o.part, o.began))
		x.trace.Attempts = append(x.trace.Attempts, record.Attempt{Provider: o.to.Provider, Model: o.to.Model, Outcome: record.ClientClosed})
	}
}

// run calls the verifier, and retries without what its provider refuses, as often as the request may be retried.
func (o *sideCall) run(ctx context.Context, x *exchange, t *attempt.Attempt) {
	seq := upstream.Sequence{Candidates: []policy.Resolution{t.To}, MaxRetries: x.Config.MaxRetries, Once: true}
	for to := seq.Candidate(); to != nil; to = seq.Candidate() {
		call := *t
		call.To, o.to, o.began = *to, *to, time.Now()
		a, f, err := x.collect(ctx, &call)
		if attempt.IsPanic(err) {
			f, err = &upstream.Failure{Provider: to.Provider, Kind: upstream.NotEncoded, Cause: err}, nil
		}
		if f == nil && err == nil {
			o.a, a.Began = a, o.began
			return
		}
		if err != nil || ctx.Err() != nil && f.Kind != upstream.NotEncoded {
			if o.part = (&meter.Count{}); a != nil {
				o.part = &a.Count
			}
			return
		}
		again, ok := attempt.WithoutRefused(t.View, *to, f)
		o.failed = append(o.failed, failedSideCall{o.to, f, seq.Failed(upstream.State{Failure: f, Amendable: ok}, again)})
	}
}

// verifierAnswer waits for the verifier's answer, with heartbeats meanwhile, bills it and records its failures. It returns nil if the call failed or
// its answer is invalid. The error means that the client has disconnected.
func (s *drivenStream) verifierAnswer(ctx context.Context) (*reading.Answer, *review.Validation, error) {
	o := s.verifier
	if o == nil {
		return nil, nil, nil
	}
	if err := s.waitFor(ctx, o); err != nil {
		return nil, nil, err
	}
	x := s.x
	if !o.noted {
		o.noted = true
		for i := range o.failed {
			x.outcome.RecordFailure(o.failed[i].to, o.failed[i].f)
			x.outcome.RecordDecision(o.failed[i].d)
		}
	}
	if o.a == nil {
		return nil, nil, nil
	}
	if !o.a.Counted {
		x.outcome.Charge(o.a)
		x.outcome.RecordAnswered(o.a, record.OK)
	}
	j := x.review.ValidateHeld(o.a.Form, o.a.Held)
	if !x.review.Accepts(j) {
		return nil, nil, nil
	}
	return o.a, j, nil
}

// waitFor waits for the end of a side call. The error means that the client has disconnected.
func (s *drivenStream) waitFor(ctx context.Context, o *sideCall) error {
	for {
		select {
		case <-o.done:
			return nil
		case <-s.beat.C():
			if err := s.heartbeat(s.x.Order[0]); err != nil {
				return err
			}
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, upstream.ErrTotalTimeout) {
				return cause
			}
			<-o.done // the total timeout ends it as well
			return nil
		}
	}
}

// useVerifierAnswer answers with the verifier's answer if no candidate gave a valid one; ok is false if it is not valid either.
func (s *drivenStream) useVerifierAnswer(ctx context.Context) (ok bool, err error) {
	x := s.x
	b, j, err := s.verifierAnswer(ctx)
	if b == nil || err != nil {
		return false, err
	}
	x.review.Verification.Skip(review.SkippedFailed)
	x.replaceAnswer(nil, b, j)
	x.review.EmitVerified(&b.By)
	b.Release(ctx, x.visibleEvents(b, j))
	if r := b.RefusedBy(); r != nil {
		return true, s.refuseAnswer(ctx, b, r)
	}
	if b.Fails() != nil {
		return false, nil
	}
	return true, s.send(ctx, b)
}
