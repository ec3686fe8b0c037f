package extproc

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reading"
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
func (o *callOwner) Written(degraded []string) { (*exchange)(o).report.Profile(degraded) }

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
	x.later.Claim(&x.View, t)
	return t
}

// encode writes the next attempt of a candidate for Envoy to send.
func (x *exchange) encode(buf []byte, to *policy.Resolution) (attempt.Call, error) {
	return x.calls.Write(buf, x.nextAttempt(to))
}

// fetch makes an attempt on the native path and reads its answer in one piece. The answer is complete where there is neither a failure nor an
// error; the error is that the client has disconnected.
func (x *exchange) fetch(ctx context.Context, to *policy.Resolution) (a *reading.Answer, f *upstream.Failure, err error) {
	t, began := x.nextAttempt(to), time.Now()
	x.bill.Begin(&t.To, began)
	open := func(status int, h header.List) attempt.Sink {
		b := reading.New(&x.report, &x.rounds, t, status, h)
		if status/100 == 2 {
			b.Began = began
			a, x.current = b, b
		}
		return collector{b}
	}
	f, err = x.calls.Do(ctx, t, open, attempt.Wait{})
	return a, f, err
}

// gather makes an attempt and holds its answer. It may run beside the exchange's own goroutine: it notes nothing.
func (x *exchange) gather(ctx context.Context, t *attempt.Attempt) (a *reading.Answer, f *upstream.Failure, err error) {
	open := func(status int, h header.List) attempt.Sink {
		b := reading.New(&x.report, &x.rounds, t, status, h)
		b.Holds, b.Parallel = true, true // a refusal, too: layers see one answer at a time
		if status/100 == 2 {
			a = b
		}
		return collector{b}
	}
	f, err = x.calls.Do(ctx, t, open, attempt.Wait{})
	return a, f, err
}

// collector is an answer that is read to its end before anybody sees it.
type collector struct{ *reading.Answer }

// Pass implements attempt.Sink.
func (c collector) Pass(context.Context) (done bool, err error) { return c.Ended, nil }

// Failure implements attempt.Sink.
func (c collector) Failure() *upstream.Failure {
	if f := c.Fails(); f != nil {
		return f
	}
	return c.TooLong(int64(len(c.Out)) + c.HeldBytes)
}

// encodeBeside writes an attempt's request in the goroutine of a retry's stream. A panic becomes a PanicError.
func (x *exchange) encodeBeside(to *policy.Resolution) (call attempt.Call, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = attempt.PanicError{Cause: x.panicked(r)}
		}
	}()
	return x.encode(nil, to)
}

// amend says how a candidate is called again without what it refused. ok is false when its adapter knows no way, or the request has no attempt
// left. Call it after the failure was noted.
func (x *exchange) amend(to policy.Resolution, f *upstream.Failure) (again policy.Resolution, ok bool) {
	if x.hadAllAttempts() {
		return to, false
	}
	if again, ok := attempt.NextKey(to, len(x.Seals(&to)), f); ok {
		return again, true
	}
	if attempt.SwitchToChat(&x.View, &to, f) {
		return to, true
	}
	if x.review.LowerEnforcement(to, f) {
		return to, true
	}
	return attempt.Amend(&x.View, to, f)
}

// hadAllAttempts reports whether the request may have no further attempt.
func (x *exchange) hadAllAttempts() bool { return x.trace.Tried() > x.Config.MaxRetries }
