package extproc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/sse"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// The driven path: the gateway answers its client itself and calls the candidates one after the other through Envoy's egress
// listener. Nothing is sent before the first content, so a provider that fails before it is never seen by the client; one
// that fails after it ends in an error event. An answer in one piece, and one that is held back, is sent when it is complete: until
// then, any failure leaves room for another candidate.

// drive serves a request from x.Order.
func (x *exchange) drive(ctx context.Context, d stream.Client) error {
	s := x.newDriven(d)
	defer s.beat.Stop()
	return s.run(ctx)
}

func (x *exchange) newDriven(d stream.Client) *drivenStream {
	return &drivenStream{x: x, client: d, beat: time.NewTimer(x.rt.Timeouts.Heartbeat)}
}

// run calls the candidates until one answers.
func (s *drivenStream) run(ctx context.Context) error {
	x, client := s.x, ctx
	ctx, cancel := context.WithTimeoutCause(ctx, x.totalTime(), errTotal)
	defer cancel()
	x.departs()
	s.askSecond(ctx)
	defer s.leaveSecond()
	var failures []*upstream.Failure
	for n, i := 0, 0; i < len(x.Order); n++ {
		f, err := s.attempt(ctx, x.Order[i])
		if err != nil || f == nil {
			return err
		}
		if f.Kind == upstream.WrongForm { // it was answered, and is told what is wrong with the answer
			n--
			continue
		}
		if s.content { // the client has a part of it, and pays for that
			x.interrupt(x.current)
		}
		x.failed(x.Order[i], f)
		if !s.content {
			x.current = nil
		}
		state := upstream.State{
			Failure: f, Failures: n + 1, MaxRetries: x.rt.MaxRetries, Candidates: len(x.Order), Left: len(x.Order) - 1 - i, Sent: s.content, Over: ctx.Err() != nil,
		}
		again := x.Order[i]
		if !state.Sent && !state.Over {
			again, state.Amendable = x.amend(x.Order[i], f)
			state.FreshKey = x.hasFreshKey(f)
		}
		d := upstream.Next(&state)
		x.decided(d)
		if d.Move == upstream.Amend {
			x.Order[i] = again
			continue
		}
		failures = append(failures, f)
		if d.Move == upstream.Stop {
			break
		}
		if d.Move == upstream.Advance {
			i++
		}
	}
	return s.giveUp(client, failures)
}

var (
	errTotal      = errors.New("the request's total time is over")
	errFirstToken = errors.New("no content within the first-token time-out")
	errIdle       = errors.New("the stream fell silent")
)

// drivenStream is the client's side of a driven stream, over all attempts.
type drivenStream struct {
	x       *exchange
	client  stream.Client
	beat    *time.Timer
	begun   bool // the status has gone out
	content bool // something of the answer has gone out
	sent    int64
	second  *side // another model's answer, under way; nil for none
}

// attempt calls one candidate. It returns nil, nil when the answer is complete, a failure when another candidate may be
// tried (or the stream must end in an error), and an error when the client is gone.
func (s *drivenStream) attempt(ctx context.Context, to policy.Resolution) (*upstream.Failure, error) {
	a, f, err := s.listen(ctx, s.x.tryOf(to), s.deliver)
	if f != nil || err != nil || !a.whole() {
		return f, err
	}
	return s.conclude(ctx, a)
}

// listen calls a candidate and takes in its answer. pass sees it after each piece, and says when it is all there. The answer is complete
// where there is neither a failure, as of attempt, nor an error.
func (s *drivenStream) listen(ctx context.Context, t *try, pass func(context.Context, *answer) (bool, error)) (*answer, *upstream.Failure, error) {
	to, began := t.to, time.Now()
	call, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // it may outlive its client: see lastWord
	defer cancel(nil)
	limit := time.AfterFunc(s.x.patience(to), func() { cancel(errFirstToken) })
	defer limit.Stop()

	s.x.bill.Begin(to, began)
	resp, f, err := s.open(ctx, call, t) //nolint:bodyclose // the reader closes it
	if f != nil || err != nil {
		return nil, f, err
	}
	a := s.x.newAnswer(t, resp.StatusCode, fromHTTP(resp.Header))
	s.x.current, a.began = a, began
	r := newReader(resp.Body, s.x.panicked)
	defer r.close()
	for {
		select {
		case c := <-r.chunks:
			if isBroken(c.err) {
				return nil, nil, s.x.broken(c.err)
			}
			if c.err != nil && call.Err() != nil {
				f, err := s.interrupted(call, to, a)
				return nil, f, err
			}
			a.feed(ctx, c.b, c.end)
			if a.content && s.x.Request.Stream {
				limit.Reset(s.x.rt.Timeouts.Idle) // from here on its expiry is a silence in the middle
			}
			done, err := pass(ctx, a)
			if done && !c.end {
				r.finish()
			}
			if done || err != nil {
				return a, nil, err
			}
			if f := s.progress(a, c); f != nil {
				return nil, f, nil
			}
		case <-s.beat.C:
			if err := s.heartbeat(a.res); err != nil {
				return nil, nil, err
			}
		case <-call.Done():
			f, err := s.interrupted(call, to, a)
			return nil, f, err
		case <-ctx.Done():
			a.lastWord(call, r)
			f, err := s.interrupted(ctx, to, a)
			return nil, f, err
		}
	}
}

// usageTime is how long the usage of an answer may lag behind its end, once its client has disconnected (D-81).
const usageTime = 2 * time.Second

// lastWord reads on, for a client that disconnected, where the answer is there and only what it took is missing: a provider that charges
// for reasoning that it does not show says so last.
func (a *answer) lastWord(ctx context.Context, r *reader) {
	if a.count.Stop == "" || a.count.Complete() {
		return
	}
	late := time.NewTimer(usageTime)
	defer late.Stop()
	for !a.over() && !a.count.Complete() {
		select {
		case c := <-r.chunks:
			a.feed(ctx, c.b, c.end)
			if c.end {
				return
			}
		case <-late.C:
			return
		}
	}
}

// patience is the bound of an attempt: for the first content of a stream, or for an answer in one piece.
func (x *exchange) patience(to policy.Resolution) time.Duration {
	if x.Request.Stream {
		return x.rt.Timeouts.firstToken(x.Request)
	}
	return x.rt.Timeouts.whole(x.Request, x.outputTokens(to))
}

// open sends the attempt and waits for its head, with heartbeats meanwhile. ctx is the attempt's.
func (s *drivenStream) open(client, ctx context.Context, t *try) (*http.Response, *upstream.Failure, error) {
	to := t.to
	req, err := s.x.egressRequest(ctx, t)
	if err != nil {
		return nil, &upstream.Failure{Provider: to.Provider, Kind: upstream.NotEncoded, Cause: err}, nil //nolint:nilerr // it is in the failure
	}
	heads := s.x.do(req)
	for {
		select {
		case h := <-heads:
			if h.err == nil && h.resp.StatusCode/100 == 2 {
				return h.resp, nil, nil
			}
			if isBroken(h.err) {
				return nil, nil, s.x.broken(h.err)
			}
			if ctx.Err() != nil {
				closeBody(h.resp)
				f, err := s.interrupted(ctx, to, nil)
				return nil, f, err
			}
			return nil, s.x.headFailure(ctx, t, h.resp, h.err), nil
		case <-s.beat.C:
			if err := s.heartbeat(to); err != nil {
				go s.x.discard(heads)
				return nil, nil, err
			}
		case <-client.Done():
			go s.x.discard(heads)
			f, err := s.interrupted(client, to, nil)
			return nil, f, err
		}
	}
}

// answerTo is what came of a call.
type answerTo struct {
	resp *http.Response
	err  error
}

// do makes a call in its own goroutine, so that its answer can be waited for. There is room for the answer of one that nobody waits for.
func (x *exchange) do(req *http.Request) <-chan answerTo {
	heads := make(chan answerTo, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				heads <- answerTo{nil, brokenError{x.panicked(r)}}
			}
		}()
		resp, err := x.gw.Egress.Do(req) //nolint:bodyclose // closed by who reads it
		heads <- answerTo{resp, err}
	}()
	return heads
}

// discard closes an answer that comes too late.
func (x *exchange) discard(heads <-chan answerTo) {
	defer x.contain()
	closeBody((<-heads).resp)
}

// headFailure reads why an attempt was refused before its answer began.
func (x *exchange) headFailure(ctx context.Context, t *try, resp *http.Response, err error) *upstream.Failure {
	to := t.to
	if err != nil {
		return &upstream.Failure{Provider: to.Provider, Kind: upstream.Reset, Cause: err}
	}
	defer closeBody(resp)
	if why := resp.Header.Get(state.HeaderFailure); why != "" {
		return upstream.Local(to.Provider, resp.StatusCode, why)
	}
	var body []byte
	if resp.StatusCode >= http.StatusOK { // no body belongs to a lower one
		if body, err = io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)); err != nil {
			return &upstream.Failure{Provider: to.Provider, Kind: upstream.Reset, Cause: err}
		}
	}
	a := x.newAnswer(t, resp.StatusCode, fromHTTP(resp.Header))
	a.feed(ctx, body, true)
	return upstream.Stated(to.Provider, errorOf(a, resp.StatusCode))
}

// maxErrorBody is how much is read of an error.
const maxErrorBody = 1 << 20

// errorOf is the error an answer with a bad status ended in.
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

// progress looks for a failure in what was just decoded.
func (s *drivenStream) progress(a *answer, c chunk) *upstream.Failure {
	if f := a.failure(); f != nil {
		return f
	}
	switch {
	case c.err != nil:
		return &upstream.Failure{Provider: a.res.Provider, Kind: upstream.Reset, Cause: c.err}
	case s.sent+int64(len(a.out))+a.heavy > s.x.rt.MaxAnswer:
		return &upstream.Failure{Provider: a.res.Provider, Kind: upstream.Reset, Cause: upstream.ErrTooLong}
	}
	return nil
}

// failure is what an answer itself failed by; nil if it did not.
func (a *answer) failure() *upstream.Failure {
	switch {
	case a.failed != nil:
		return upstream.Stated(a.res.Provider, a.failed)
	case a.broken != nil:
		return &upstream.Failure{Provider: a.res.Provider, Kind: upstream.NotEncoded, Cause: a.broken}
	}
	return nil
}

// deliver sends what an answer has ready, once it has content; done is true after its last byte. One that goes out as a whole is not
// sent yet.
func (s *drivenStream) deliver(ctx context.Context, a *answer) (done bool, err error) {
	if a.whole() {
		return a.ended, s.tellThinking(a)
	}
	if !a.content {
		return false, nil
	}
	if err := s.pour(a); err != nil || !a.ended {
		return false, err
	}
	return true, s.finish(ctx, a)
}

// tellThinking tells a terminal that a model whose answer is held goes on thinking. It begins no stream: the first heartbeat does.
func (s *drivenStream) tellThinking(a *answer) error {
	if a.shown == nil || !a.holds {
		return nil
	}
	signs := a.shown.overhear(a.held)
	if len(signs) == 0 || !s.begun {
		return nil
	}
	s.beat.Reset(s.x.rt.Timeouts.Heartbeat)
	return s.client.StreamBody(signs, false)
}

// send sends an answer that is complete.
func (s *drivenStream) send(ctx context.Context, a *answer) error {
	if err := s.pour(a); err != nil {
		return err
	}
	return s.finish(ctx, a)
}

// pour sends what an answer has ready.
func (s *drivenStream) pour(a *answer) error {
	if !s.content {
		s.content = true
		s.x.begins()
	}
	if err := s.start(a.res); err != nil {
		return err
	}
	return s.flush(a)
}

// flush sends what an answer has ready.
func (s *drivenStream) flush(a *answer) error {
	out := a.drain()
	if len(out) == 0 {
		return nil
	}
	s.sent += int64(len(out))
	s.beat.Reset(s.x.rt.Timeouts.Heartbeat)
	return s.client.StreamBody(out, false)
}

// finish charges for a complete answer and sends its end.
func (s *drivenStream) finish(ctx context.Context, a *answer) error {
	sum, err := s.x.settle(ctx, a, record.OK)
	if err != nil {
		return s.fail(fault.From(err))
	}
	if !s.x.Request.Stream {
		h := append(s.x.answerHeaders(a.res), sum.headers()...)
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

// heartbeat commits the status if that is still open and sends a comment at an event boundary.
func (s *drivenStream) heartbeat(to policy.Resolution) error {
	s.beat.Reset(s.x.rt.Timeouts.Heartbeat)
	if !s.x.Request.Stream { // nothing may come before a body in one piece
		return nil
	}
	if err := s.start(to); err != nil {
		return err
	}
	return s.client.StreamBody([]byte(s.x.heartbeat()), false)
}

// heartbeat is what keeps a silent stream of this client's alive.
func (x *exchange) heartbeat() string {
	if line := x.current.thinking(); line != "" {
		return line
	}
	if plain, ok := x.dialect.(wire.Plain); ok {
		return plain.Heartbeat()
	}
	return sse.Heartbeat
}

// interrupted says why an attempt's context ended: a time-out of ours is a failure, a client that left an error.
func (s *drivenStream) interrupted(ctx context.Context, to policy.Resolution, a *answer) (*upstream.Failure, error) {
	cause := context.Cause(ctx)
	if errors.Is(cause, errFirstToken) && a != nil && a.content {
		cause = errIdle
	}
	if errors.Is(cause, errFirstToken) || errors.Is(cause, errIdle) || errors.Is(cause, errTotal) {
		return &upstream.Failure{Provider: to.Provider, Kind: upstream.TimedOut, Cause: cause}, nil
	}
	return nil, cause
}

// giveUp ends a stream that no candidate could serve.
func (s *drivenStream) giveUp(ctx context.Context, fs []*upstream.Failure) error {
	if r := s.x.rejected; r != nil && !s.content {
		return s.fallBack(ctx, r.a, r.j)
	}
	if !s.content {
		if ok, err := s.rescue(ctx); ok || err != nil {
			return err
		}
		if e := s.x.standIn(fs); e != nil && len(s.x.bill.Calls()) == 0 { // nobody pays for a stored answer
			return s.replay(ctx, e, knownStale)
		}
	}
	f := s.x.exhausted(fs)
	if s.content { // what reached the client is billed; what follows is an error event
		f = fs[len(fs)-1].CutFault()
		if _, err := s.x.settle(context.WithoutCancel(ctx), s.x.current, record.Cut); err != nil {
			f = fault.From(err)
		}
	}
	return s.fail(f)
}

// fail ends the stream with an error: as JSON while nothing was sent, else as an event in the caller's format.
func (s *drivenStream) fail(f *fault.Fault) error {
	sum := s.x.settleRefused(f)
	s.x.refused(f)
	if !s.begun {
		r := s.x.errorReply(f)
		if sum != nil {
			r.Header = append(r.Header, sum.headers()...)
		}
		return s.client.Reply(r)
	}
	enc := s.x.errorEncoder()
	return s.client.StreamBody(enc.Error(nil, f), true)
}
