package extproc

import (
	"context"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/hedge"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/sse"
	"bardo.money/gateway/policy"
)

// drivenStream is the client's side of a driven request, over all attempts.
type drivenStream struct {
	x        *exchange
	beat     *attempt.Beat
	deadline time.Time // deadline of the request's calls
	begun    bool      // the status was sent
	content  bool      // a part of the answer was sent
	sending  bool      // a part of this attempt's answer was sent; an earlier round may have sent more
	sent     int64
	verifier *sideCall // nil for none

	hedgeAt int         // index in the order of the candidate that may be called beside the first; 0 for none
	race    *hedge.Race // of the calls in progress; nil while there is one
}

func (x *exchange) newDriven() *drivenStream {
	return &drivenStream{x: x, beat: attempt.NewBeat(x.Config.Timeouts.Heartbeat)}
}

// sideCall is the call of a verifier, concurrent with the calls of the request's candidates.
type sideCall struct {
	cancel context.CancelFunc
	done   chan struct{}
	began  time.Time // when the last call was sent
	noted  bool      // its failures are in the record

	to     policy.Resolution // the candidate; read only after done
	a      *reading.Answer   // complete; nil if it failed
	part   *meter.Count      // usage of an interrupted answer; nil for any other
	failed []failedSideCall
}

type failedSideCall struct {
	to policy.Resolution
	f  *upstream.Failure
	d  upstream.Decision
}

// start sends the status and the headers of a stream, once.
func (s *drivenStream) start(to policy.Resolution) error {
	if s.begun || !s.x.Request.Stream {
		return nil
	}
	s.begun, s.x.streamStarted = true, true
	return s.x.client.StreamHead(http.StatusOK, s.x.report.Stream(to, s.x.attemptNumber()))
}

// flush sends the encoded part of an answer.
func (s *drivenStream) flush(a *reading.Answer) error {
	out := a.Drain()
	if len(out) == 0 {
		return nil
	}
	s.sent += int64(len(out))
	s.beat.Sent()
	return s.x.client.StreamBody(out, false)
}

// sendProgress sends a thinking indicator to a terminal while the answer is held back. It does not start a stream: the first heartbeat does.
func (s *drivenStream) sendProgress(a *reading.Answer) error {
	if a.Reasoning == nil || !a.Holds || a.Proof != nil {
		return nil
	}
	signs := a.Reasoning.HeldProgress(a.Held)
	if len(signs) == 0 || !s.begun {
		return nil
	}
	s.beat.Sent()
	return s.x.client.StreamBody(signs, false)
}

// heartbeat returns the keepalive comment for this client's stream.
func (x *exchange) heartbeat() string {
	if line := x.outcome.Current.Thinking(); line != "" {
		return line
	}
	if d, ok := x.Dialect.(wire.CommentFree); ok {
		return d.Heartbeat()
	}
	return sse.Heartbeat
}

// heartbeat sends a comment at an event boundary, and the stream's head first if it was not sent yet.
func (s *drivenStream) heartbeat(to policy.Resolution) error {
	s.beat.Sent()
	if !s.x.Request.Stream { // nothing may come before a JSON body
		return nil
	}
	if err := s.start(to); err != nil {
		return err
	}
	return s.x.client.StreamBody([]byte(s.x.heartbeat()), false)
}

// sendReady sends the encoded part of an answer, and the stream's head first.
func (s *drivenStream) sendReady(a *reading.Answer) error {
	s.sending = true
	if !s.content {
		s.content = true
		s.x.trace.FirstToken = time.Since(s.x.Started)
	}
	if err := s.start(a.By); err != nil {
		return err
	}
	return s.flush(a)
}

// send sends an answer that is complete.
func (s *drivenStream) send(ctx context.Context, a *reading.Answer) error {
	if err := s.x.outcome.KeepProof(ctx, &a.By, a.Proof); err != nil {
		return s.fail(fault.From(err))
	}
	if err := s.sendReady(a); err != nil {
		return err
	}
	return s.finish(ctx, a)
}

// deliver sends the encoded part of an answer, once it has content; done is true after its last byte. It sends nothing of an answer that is sent as a
// whole.
func (s *drivenStream) deliver(ctx context.Context, a *reading.Answer) (done bool, err error) {
	if a.Whole() {
		return a.Ended, s.sendProgress(a)
	}
	if !a.Content || !a.HasOutput() || !s.content && s.x.Holding && !a.Passed {
		return a.NeedsRound(), nil
	}
	if err := s.sendReady(a); err != nil || !a.Ended || a.NeedsRound() {
		return a.NeedsRound(), err
	}
	return true, s.finish(ctx, a)
}

// finish settles a complete answer and sends the rest of it.
func (s *drivenStream) finish(ctx context.Context, a *reading.Answer) error {
	if s.x.client.Caller() != nil && s.x.outcome.SettlesSlowly(a) {
		return s.x.client.Leave(func() error { return s.end(ctx, a) })
	}
	return s.end(ctx, a)
}

func (s *drivenStream) end(ctx context.Context, a *reading.Answer) error {
	sum, err := s.x.outcome.Settle(ctx, a, record.OK)
	if err != nil {
		return s.fail(fault.From(err))
	}
	if !s.x.Request.Stream {
		h := sum.Headers(s.x.answerHeaders(a.By))
		h = append(h, header.Field{Name: "content-type", Value: header.JSON})
		return s.x.client.Reply(stream.Reply{Status: http.StatusOK, Header: h, Body: a.End})
	}
	last := sum.Last(a.End)
	if !s.x.wantsTrailers {
		return s.x.client.StreamBody(last, true)
	}
	if err := s.x.client.StreamBody(last, false); err != nil {
		return err
	}
	return s.x.client.StreamTrailers(sum.Trailers())
}

// fail ends the request with an error: as JSON while nothing was sent, else as an event in the client's format.
func (s *drivenStream) fail(f *fault.Fault) error {
	sum := s.x.outcome.SettleRefused(f)
	s.x.outcome.RecordRefused(f)
	if !s.begun {
		r := s.x.report.Error(f)
		if sum != nil {
			r.Header = sum.Headers(r.Header)
		}
		return s.x.client.Reply(r)
	}
	enc := s.x.errorEncoder()
	return s.x.client.StreamBody(enc.Error(nil, f), true)
}

// callWith makes an attempt, and sends heartbeats meanwhile. pass is called after each chunk of the answer, and reports whether the answer is
// complete. The answer is complete if failure and error are nil; the error means that the client has disconnected.
func (s *drivenStream) callWith(ctx context.Context, t *attempt.Attempt, pass func(context.Context, *reading.Answer) (bool, error)) (a *reading.Answer, f *upstream.Failure, err error) {
	x, began := s.x, time.Now()
	x.bill.Begin(&t.To, began)
	open := func(status int, h header.List) attempt.Sink {
		defer s.race.Lock()()
		b := reading.New(&x.report, &x.rounds, t, status, h)
		if status/100 == 2 {
			x.report.Later.Answers(t)
			b.Began = began
			a, x.outcome.Current = b, b
		}
		return s.race.Sink(&clientSink{b, s, pass}, status/100 == 2)
	}
	beat := func() error {
		defer s.race.Lock()()
		return s.heartbeat(t.To)
	}
	wait := attempt.Wait{Beat: s.beat, OnHeartbeat: beat, Caller: s.x.client.Caller(), Until: s.deadline}
	f, err = x.calls.Do(x.report.Later.With(ctx, t), t, open, wait)
	if attempt.IsPanic(err) {
		err = x.broken(err)
	}
	if f != nil {
		x.outcome.VoidCall(ctx, &t.To, t.Proof)
	}
	return a, f, err
}

// clientSink is a sink that sends each chunk of an answer to the client.
type clientSink struct {
	*reading.Answer

	s    *drivenStream
	pass func(context.Context, *reading.Answer) (bool, error)
}

// Pass implements attempt.Sink.
func (c *clientSink) Pass(ctx context.Context) (done bool, err error) { return c.pass(ctx, c.Answer) }

// Failure implements attempt.Sink. It limits the size: Envoy would buffer a longer answer for a client that does not read.
func (c *clientSink) Failure() *upstream.Failure {
	if f := c.Fails(); f != nil {
		return f
	}
	return c.TooLong(c.s.sent + int64(len(c.Out)) + c.HeldBytes)
}

// refuseAnswer ends a request whose answer a layer refused.
func (s *drivenStream) refuseAnswer(ctx context.Context, a *reading.Answer, f *fault.Fault) error {
	x := s.x
	if x.report.Later.Waits(f) { // nothing is settled yet
		return s.fail(f)
	}
	sum, err := x.outcome.SettleRefusal(ctx, a, f)
	if err != nil {
		return s.fail(fault.From(err))
	}
	if s.begun {
		return s.fail(f)
	}
	x.outcome.RecordRefused(f)
	r := x.report.Error(f)
	r.Header = sum.Headers(r.Header)
	return s.x.client.Reply(r)
}
