package extproc

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// How the attempts of a request are made: those of the driven path one after the other, a second model's beside them, and those that follow
// a refusal on the native path.

// callOwner is an exchange as the writer of its attempts sees it.
type callOwner exchange

// Written implements attempt.Owner.
func (o *callOwner) Written(degraded []string) { (*exchange)(o).tellProfile(degraded) }

// Panicked implements attempt.Owner.
func (o *callOwner) Panicked(value any) error { return (*exchange)(o).panicked(value) }

// newAttempt is a call of a candidate by the request as v has it. correction is put behind the messages.
func (x *exchange) newAttempt(v *request.View, to *policy.Resolution, correction []chat.Message) *attempt.Attempt {
	plan := x.review.PlanFor(v, to)
	return &attempt.Attempt{View: v, To: *to, Plan: plan, HasSchema: x.review.Schema != nil, Substituted: x.review.Substituted(plan), Correction: correction}
}

// nextAttempt is the next call of a candidate: with the correction of its last answer, if that was invalid.
func (x *exchange) nextAttempt(to *policy.Resolution) *attempt.Attempt {
	if r := x.failedValidation; r != nil && r.at(to) {
		return x.newAttempt(&x.View, to, r.correction)
	}
	t := x.newAttempt(&x.View, to, nil)
	x.later.claim(&x.View, t)
	return t
}

// encode writes the next attempt of a candidate for Envoy to send.
func (x *exchange) encode(buf []byte, to *policy.Resolution) (attempt.Call, error) {
	return x.calls.Write(buf, x.nextAttempt(to))
}

// listen makes an attempt, with heartbeats for the client meanwhile. pass is called after each piece of the answer, and says when it is all
// there. The answer is complete where there is neither a failure nor an error; the error is that the client has disconnected.
func (s *drivenStream) listen(ctx context.Context, t *attempt.Attempt, pass func(context.Context, *answer) (bool, error)) (a *answer, f *upstream.Failure, err error) {
	x, began := s.x, time.Now()
	x.bill.Begin(t.To, began)
	open := func(status int, h header.List) attempt.Sink {
		b := x.newAnswer(t, status, h)
		if status/100 == 2 {
			x.later.answers(t)
			b.began = began
			a, x.current = b, b
		}
		return &listener{b, s, pass}
	}
	f, err = x.calls.Do(x.later.with(ctx, t), t, open, attempt.Wait{Heartbeat: s.beat.C, OnHeartbeat: func() error { return s.heartbeat(t.To) }})
	if attempt.IsPanic(err) {
		err = x.broken(err)
	}
	return a, f, err
}

// listener is an answer of which a client gets each piece.
type listener struct {
	*answer

	s    *drivenStream
	pass func(context.Context, *answer) (bool, error)
}

// Pass implements attempt.Sink.
func (l *listener) Pass(ctx context.Context) (done bool, err error) { return l.pass(ctx, l.answer) }

// Failure implements attempt.Sink: Envoy would hold a longer answer for a client that does not read.
func (l *listener) Failure() *upstream.Failure {
	if f := l.failure(); f != nil {
		return f
	}
	return l.tooLong(l.s.sent + int64(len(l.out)) + l.heldBytes)
}

// fetch makes an attempt on the native path and reads its answer in one piece. The answer is complete where there is neither a failure nor an
// error; the error is that the client has disconnected.
func (x *exchange) fetch(ctx context.Context, to *policy.Resolution) (a *answer, f *upstream.Failure, err error) {
	t, began := x.nextAttempt(to), time.Now()
	x.bill.Begin(t.To, began)
	open := func(status int, h header.List) attempt.Sink {
		b := x.newAnswer(t, status, h)
		if status/100 == 2 {
			b.began = began
			a, x.current = b, b
		}
		return collector{b}
	}
	f, err = x.calls.Do(ctx, t, open, attempt.Wait{})
	return a, f, err
}

// gather makes an attempt and holds its answer. It may run beside the exchange's own goroutine: it notes nothing.
func (x *exchange) gather(ctx context.Context, t *attempt.Attempt) (a *answer, f *upstream.Failure, err error) {
	open := func(status int, h header.List) attempt.Sink {
		b := x.newAnswer(t, status, h)
		if status/100 == 2 {
			b.holds, b.parallel = true, true
			a = b
		}
		return collector{b}
	}
	f, err = x.calls.Do(ctx, t, open, attempt.Wait{})
	return a, f, err
}

// collector is an answer that is read to its end before anybody sees it.
type collector struct{ *answer }

// Pass implements attempt.Sink.
func (c collector) Pass(context.Context) (done bool, err error) { return c.ended, nil }

// Failure implements attempt.Sink.
func (c collector) Failure() *upstream.Failure {
	if f := c.failure(); f != nil {
		return f
	}
	return c.tooLong(int64(len(c.out)) + c.heldBytes)
}

// tooLong is the failure of an answer that is larger than the gateway holds; nil for any other. size is in bytes.
func (a *answer) tooLong(size int64) *upstream.Failure {
	if size > a.x.Config.MaxAnswer {
		return &upstream.Failure{Provider: a.res.Provider, Kind: upstream.Reset, Cause: upstream.ErrTooLong}
	}
	return nil
}

// Feed implements attempt.Sink.
func (a *answer) Feed(ctx context.Context, b []byte, end bool) { a.feed(ctx, b, end) }

// Refusal implements attempt.Sink.
func (a *answer) Refusal(status int) *chat.ProviderError { return errorOf(a, status) }

// HasContent implements attempt.Sink.
func (a *answer) HasContent() bool { return a.content }

// LacksUsage implements attempt.Sink.
func (a *answer) LacksUsage() bool { return a.count.Stop != "" && !a.count.Complete() && !a.over() }
