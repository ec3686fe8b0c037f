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

// The driven path: the gateway answers its client itself, and calls the candidates one after the other through Envoy's egress listener (or, for a
// request that is still on a worker's thread, through its stream.Caller). Nothing is sent before the first content: a provider that fails earlier is
// replaced unnoticed, and a stream that fails later ends in an error event. An answer that is not streamed, or is held back, is sent when it is
// complete; until then any failure can fail over to another candidate.

// serveDriven serves a request from x.Order.
func (x *exchange) serveDriven(ctx context.Context) error {
	return x.newDriven().run(ctx)
}

// run calls the candidates until one answers. On a thread, it calls the first one there; after a failure it may block.
func (s *drivenStream) run(ctx context.Context) error {
	x := s.x
	x.trace.StartFirstAttempt(x.Arrived, x.Waited)
	s.deadline, s.hedgeAt = time.Now().Add(x.TotalTime()), x.hedgeAt
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

// callAll calls the candidates. failed is the first one's failure if it was called already, else nil.
func (s *drivenStream) callAll(client context.Context, seq *upstream.Sequence, failed *upstream.Failure) error {
	ctx, cancel := context.WithDeadlineCause(client, s.deadline, upstream.ErrTotalTimeout)
	defer cancel()
	defer s.beat.Stop()
	s.startVerifier(ctx)
	defer s.endVerifier()
	for to := seq.Candidate(); to != nil; to = seq.Candidate() {
		f := failed
		if failed = nil; f == nil {
			var err error
			if f, err = s.attemptNext(ctx, seq); err != nil || f == nil {
				return err
			}
			to = seq.Candidate()
		}
		if r := reading.RefusalOf(f); r != nil {
			return s.refuseAnswer(ctx, s.x.outcome.Current, r)
		}
		if f.Kind != upstream.WrongForm { // for WrongForm the model is called again with a correction: not a failed attempt
			s.afterFailure(ctx, seq, *to, f)
		}
	}
	return s.giveUp(client, seq.Failures)
}

// attemptNext calls the next candidate: the first, if the request may be hedged, perhaps with another beside it.
func (s *drivenStream) attemptNext(ctx context.Context, seq *upstream.Sequence) (*upstream.Failure, error) {
	at := s.hedgeAt
	if s.hedgeAt = 0; at > 0 {
		return s.attemptHedged(ctx, seq, at)
	}
	return s.attempt(ctx, *seq.Candidate())
}

// afterFailure records a failed attempt and decides what is called next.
func (s *drivenStream) afterFailure(ctx context.Context, seq *upstream.Sequence, to policy.Resolution, f *upstream.Failure) {
	x := s.x
	if s.sending { // the part that the client has is billed
		x.outcome.Interrupt(x.outcome.Current)
	}
	x.outcome.RecordFailed(to, f)
	if !s.sending {
		x.outcome.Current = x.lastRound
	}
	again, state := to, upstream.State{Failure: f, Sent: s.sending, Over: ctx.Err() != nil}
	if !state.Sent && !state.Over {
		again, state.Amendable = x.retryWithout(to, f)
		state.FreshKey = x.calls.HasFreshKey(f)
	}
	x.outcome.RecordDecision(seq.Failed(state, again))
}

// attempt calls one candidate. It returns nil, nil when the answer is complete; a failure when another candidate may be called or the stream must end
// in an error; an error when the client has disconnected.
func (s *drivenStream) attempt(ctx context.Context, to policy.Resolution) (*upstream.Failure, error) {
	a, f, err := s.rounds(ctx, func() *attempt.Attempt { return s.x.nextAttempt(&to) })
	if f != nil || err != nil || !a.Whole() {
		return f, err
	}
	return s.finishHeld(ctx, a)
}

// giveUp ends a request after all candidates failed, with a fallback if there is one.
func (s *drivenStream) giveUp(ctx context.Context, fs []*upstream.Failure) error {
	if r := s.x.failedValidation; r != nil && !s.content {
		return s.useFallback(ctx, r.a, r.j)
	}
	if !s.content {
		if ok, err := s.useVerifierAnswer(ctx); ok || err != nil {
			return err
		}
		if e := s.x.staleFallback(ctx, fs); e != nil && s.x.bill.Answers() == 0 { // a stored answer is not billed, but these calls are
			return s.replay(ctx, e, record.CacheStale)
		}
	}
	f := s.x.outcome.NoAnswer(fs)
	if s.content { // it is billed, and an error event follows
		f = fs[len(fs)-1].CutFault()
		if _, err := s.x.outcome.Settle(context.WithoutCancel(ctx), s.x.outcome.Current, record.Cut); err != nil {
			f = fault.From(err)
		}
	}
	return s.fail(f)
}
