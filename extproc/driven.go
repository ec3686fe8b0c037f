package extproc

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// The driven path: the gateway answers its client itself and calls the candidates one after the other, through Envoy's egress listener, or for a request that is
// still on a worker's thread through its stream.Caller.
// Nothing is sent before the first content: the client does not notice a provider that fails before it, and a stream that fails after it
// ends in an error event. An answer that is not streamed, or held back, is sent when it is complete: until then, any failure leaves room for
// another candidate.

// drive serves a request from x.Order.
func (x *exchange) drive(ctx context.Context) error {
	return x.newDriven().run(ctx)
}

// run calls the candidates until one answers. On a thread it calls the first one there; what comes after a failure may wait.
func (s *drivenStream) run(ctx context.Context) error {
	x := s.x
	x.trace.Departs(x.Arrived, x.Waited)
	s.until = time.Now().Add(x.TotalTime())
	seq := &upstream.Sequence{Candidates: x.Order, MaxRetries: x.Config.MaxRetries}
	if s.x.client.Caller() == nil {
		return s.callAll(ctx, seq, nil)
	}
	f, err := s.attempt(ctx, x.Order[0])
	if err != nil || f == nil {
		return err
	}
	return s.x.client.Leave(func() error { return s.callAll(ctx, seq, f) })
}

// callAll calls the candidates, the first one only if it has not failed.
func (s *drivenStream) callAll(client context.Context, seq *upstream.Sequence, failed *upstream.Failure) error {
	ctx, cancel := context.WithDeadlineCause(client, s.until, upstream.ErrTotalTimeout)
	defer cancel()
	defer s.beat.Stop()
	s.startVerifier(ctx)
	defer s.endVerifier()
	for to := seq.Candidate(); to != nil; to = seq.Candidate() {
		f := failed
		if failed = nil; f == nil {
			var err error
			if f, err = s.attempt(ctx, *to); err != nil || f == nil {
				return err
			}
		}
		if r := reading.RefusalOf(f); r != nil {
			return s.refuseAnswer(ctx, s.x.current, r)
		}
		if f.Kind != upstream.WrongForm { // else the model is told what is wrong with its answer: not a failed attempt
			s.failed(ctx, seq, *to, f)
		}
	}
	return s.giveUp(client, seq.Failures)
}

// failed notes a failed attempt, and decides what is called next.
func (s *drivenStream) failed(ctx context.Context, seq *upstream.Sequence, to policy.Resolution, f *upstream.Failure) {
	x := s.x
	if s.sending { // the client has a part of it, which is billed
		x.interrupt(x.current)
	}
	x.failed(to, f)
	if !s.sending {
		x.current = x.lastRound
	}
	again, state := to, upstream.State{Failure: f, Sent: s.sending, Over: ctx.Err() != nil}
	if !state.Sent && !state.Over {
		again, state.Amendable = x.amend(to, f)
		state.FreshKey = x.calls.HasFreshKey(f)
	}
	x.decided(seq.Failed(state, again))
}

// attempt calls one candidate. It returns nil, nil when the answer is complete; a failure when another candidate may be called, or the stream
// must end in an error; an error when the client has disconnected.
func (s *drivenStream) attempt(ctx context.Context, to policy.Resolution) (*upstream.Failure, error) {
	a, f, err := s.rounds(ctx, func() *attempt.Attempt { return s.x.nextAttempt(&to) })
	if f != nil || err != nil || !a.Whole() {
		return f, err
	}
	return s.finishHeld(ctx, a)
}

// giveUp ends a request that no candidate answered, with a fallback where there is one.
func (s *drivenStream) giveUp(ctx context.Context, fs []*upstream.Failure) error {
	if r := s.x.failedValidation; r != nil && !s.content {
		return s.useFallback(ctx, r.a, r.j)
	}
	if !s.content {
		if ok, err := s.useVerifierAnswer(ctx); ok || err != nil {
			return err
		}
		if e := s.x.staleFallback(ctx, fs); e != nil && s.x.bill.Answers() == 0 { // a stored answer bills nothing, and these calls are billed
			return s.replay(ctx, e, record.CacheStale)
		}
	}
	f := s.x.exhausted(fs)
	if s.content { // it is billed, and an error event follows
		f = fs[len(fs)-1].CutFault()
		if _, err := s.x.settle(context.WithoutCancel(ctx), s.x.current, record.Cut); err != nil {
			f = fault.From(err)
		}
	}
	return s.fail(f)
}
