package extproc

import (
	"context"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/sse"
	"bardo.money/gateway/policy"
)

// The driven path: the gateway answers its client itself and calls the candidates one after the other through Envoy's egress listener.
// Nothing is sent before the first content: the client does not notice a provider that fails before it, and a stream that fails after it
// ends in an error event. An answer that is not streamed, or held back, is sent when it is complete: until then, any failure leaves room for
// another candidate.

// drive serves a request from x.Order.
func (x *exchange) drive(ctx context.Context, d stream.Client) error {
	s := x.newDriven(d)
	defer s.beat.Stop()
	return s.run(ctx)
}

func (x *exchange) newDriven(d stream.Client) *drivenStream {
	return &drivenStream{x: x, client: d, beat: time.NewTimer(x.Config.Timeouts.Heartbeat)}
}

// run calls the candidates until one answers.
func (s *drivenStream) run(ctx context.Context) error {
	x, client := s.x, ctx
	ctx, cancel := context.WithTimeoutCause(ctx, x.TotalTime(), upstream.ErrTotalTimeout)
	defer cancel()
	x.trace.Departs(x.Arrived, x.Waited)
	s.startVerifier(ctx)
	defer s.endVerifier()
	seq := upstream.Sequence{Candidates: x.Order, MaxRetries: x.Config.MaxRetries}
	for to := seq.Candidate(); to != nil; to = seq.Candidate() {
		f, err := s.attempt(ctx, *to)
		if err != nil || f == nil {
			return err
		}
		if r := refusalOf(f); r != nil {
			return s.refuseAnswer(ctx, x.current, r)
		}
		if f.Kind == upstream.WrongForm { // not a failed attempt: the model is told what is wrong with its answer
			continue
		}
		if s.sending { // the client has a part of it, which is billed
			x.interrupt(x.current)
		}
		x.failed(*to, f)
		if !s.sending {
			x.current = x.rounds.last
		}
		again, state := *to, upstream.State{Failure: f, Sent: s.sending, Over: ctx.Err() != nil}
		if !state.Sent && !state.Over {
			again, state.Amendable = x.amend(*to, f)
			state.FreshKey = x.calls.HasFreshKey(f)
		}
		x.decided(seq.Failed(state, again))
	}
	return s.giveUp(client, seq.Failures)
}

// drivenStream is the client's side of a driven stream, over all attempts.
type drivenStream struct {
	x        *exchange
	client   stream.Client
	beat     *time.Timer
	begun    bool // the status was sent
	content  bool // a part of the answer was sent
	sending  bool // a part of this attempt's answer was sent; an earlier round's may have been
	sent     int64
	verifier *sideCall // nil for none
}

// attempt calls one candidate. It returns nil, nil when the answer is complete; a failure when another candidate may be called, or the stream
// must end in an error; an error when the client has disconnected.
func (s *drivenStream) attempt(ctx context.Context, to policy.Resolution) (*upstream.Failure, error) {
	a, f, err := s.rounds(ctx, func() *attempt.Attempt { return s.x.nextAttempt(&to) })
	if f != nil || err != nil || !a.whole() {
		return f, err
	}
	return s.finishHeld(ctx, a)
}

// errorOf is the error of an answer with a status other than 2xx.
func errorOf(a *answer, status int) *chat.ProviderError {
	if a.failed == nil {
		return &chat.ProviderError{Status: status}
	}
	e := *a.failed
	if e.Status == 0 {
		e.Status = status
	}
	return &e
}

// failure is the answer's own: the provider's error in it, or a layer that could not read it; nil for none.
func (a *answer) failure() *upstream.Failure {
	switch {
	case a.failed != nil:
		return upstream.Stated(a.res.Provider, a.failed)
	case a.broken != nil:
		return &upstream.Failure{Provider: a.res.Provider, Kind: upstream.NotEncoded, Cause: a.broken}
	}
	return nil
}

// deliver sends what is encoded of an answer, once it has content; done is true after its last byte. An answer that is sent as a whole is not
// sent yet.
func (s *drivenStream) deliver(ctx context.Context, a *answer) (done bool, err error) {
	if a.whole() {
		return a.ended, s.sendProgress(a)
	}
	if !a.content || !a.sends() || !s.content && a.x.Holding && !a.passed {
		return a.asksAgain(), nil
	}
	if err := s.sendReady(a); err != nil || !a.ended || a.asksAgain() {
		return a.asksAgain(), err
	}
	return true, s.finish(ctx, a)
}

// sendProgress shows a terminal that a model whose answer is held back is thinking. It does not begin a stream: the first heartbeat does.
func (s *drivenStream) sendProgress(a *answer) error {
	if a.reasoning == nil || !a.holds {
		return nil
	}
	signs := a.reasoning.HeldProgress(a.held)
	if len(signs) == 0 || !s.begun {
		return nil
	}
	s.beat.Reset(s.x.Config.Timeouts.Heartbeat)
	return s.client.StreamBody(signs, false)
}

// send sends an answer that is complete.
func (s *drivenStream) send(ctx context.Context, a *answer) error {
	if err := s.sendReady(a); err != nil {
		return err
	}
	return s.finish(ctx, a)
}

// sendReady sends what is encoded of an answer, the stream's head first.
func (s *drivenStream) sendReady(a *answer) error {
	s.sending = true
	if !s.content {
		s.content = true
		s.x.trace.FirstToken = time.Since(s.x.Started)
	}
	if err := s.start(a.res); err != nil {
		return err
	}
	return s.flush(a)
}

// flush sends what is encoded of an answer.
func (s *drivenStream) flush(a *answer) error {
	out := a.drain()
	if len(out) == 0 {
		return nil
	}
	s.sent += int64(len(out))
	s.beat.Reset(s.x.Config.Timeouts.Heartbeat)
	return s.client.StreamBody(out, false)
}

// finish settles a complete answer and sends its end.
func (s *drivenStream) finish(ctx context.Context, a *answer) error {
	sum, err := s.x.settle(ctx, a, record.OK)
	if err != nil {
		return s.fail(fault.From(err))
	}
	if !s.x.Request.Stream {
		h := sum.headers(s.x.answerHeaders(a.res))
		h = append(h, header.Field{Name: "content-type", Value: header.JSON})
		return s.client.Reply(stream.Reply{Status: http.StatusOK, Header: h, Body: a.end})
	}
	last := sum.last(a.end)
	if !s.x.wantsTrailers {
		return s.client.StreamBody(last, true)
	}
	if err := s.client.StreamBody(last, false); err != nil {
		return err
	}
	return s.client.StreamTrailers(sum.trailers())
}

// start sends the status and the headers of a stream, once.
func (s *drivenStream) start(to policy.Resolution) error {
	if s.begun || !s.x.Request.Stream {
		return nil
	}
	s.begun, s.x.streams = true, true
	return s.client.StreamHead(http.StatusOK, s.x.streamHeaders(to))
}

// heartbeat sends a comment at an event boundary, after the stream's head if that was not sent yet.
func (s *drivenStream) heartbeat(to policy.Resolution) error {
	s.beat.Reset(s.x.Config.Timeouts.Heartbeat)
	if !s.x.Request.Stream { // nothing may come before a JSON body
		return nil
	}
	if err := s.start(to); err != nil {
		return err
	}
	return s.client.StreamBody([]byte(s.x.heartbeat()), false)
}

// heartbeat is what keeps a silent stream of this client alive.
func (x *exchange) heartbeat() string {
	if line := x.current.thinking(); line != "" {
		return line
	}
	if d, ok := x.Dialect.(wire.CommentFree); ok {
		return d.Heartbeat()
	}
	return sse.Heartbeat
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
		if e := s.x.staleFallback(fs); e != nil && s.x.bill.Answers() == 0 { // a stored answer bills nothing, and these calls are billed
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

// fail ends the request with an error: as JSON while nothing was sent, else as an event in the client's format.
func (s *drivenStream) fail(f *fault.Fault) error {
	sum := s.x.settleRefused(f)
	s.x.refused(f)
	if !s.begun {
		r := s.x.errorReply(f)
		if sum != nil {
			r.Header = sum.headers(r.Header)
		}
		return s.client.Reply(r)
	}
	enc := s.x.errorEncoder()
	return s.client.StreamBody(enc.Error(nil, f), true)
}
