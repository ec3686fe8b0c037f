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

// Attempts of a request: those of the driven path, one after the other; a verifier's, concurrently with them; and those after a refusal on the native
// path.

// callOwner is the attempt.Owner of an exchange's attempts.
type callOwner exchange

// Written implements attempt.Owner.
func (o *callOwner) Written(degraded []string) { (*exchange)(o).report.Profile(degraded) }

// Panicked implements attempt.Owner.
func (o *callOwner) Panicked(value any) error { return (*exchange)(o).panicked(value) }

// newAttempt returns an attempt of the request v at a candidate. correction is appended to the messages.
func (x *exchange) newAttempt(v *request.View, to *policy.Resolution, correction []chat.Message) *attempt.Attempt {
	plan := x.review.PlanFor(v, to)
	return &attempt.Attempt{View: v, To: *to, Plan: plan, HasSchema: x.review.Schema != nil, Substituted: x.review.Substituted(plan), Correction: correction}
}

// nextAttempt returns the next attempt at a candidate: with the correction of its last answer, if that was invalid.
func (x *exchange) nextAttempt(to *policy.Resolution) *attempt.Attempt {
	if r := x.failedValidation; r != nil && r.at(to) {
		return x.newAttempt(&x.View, to, r.correction)
	}
	t := x.newAttempt(&x.View, to, nil)
	x.report.Later.Claim(&x.View, t)
	return t
}

// encode writes the next attempt of a candidate for Envoy to send.
func (x *exchange) encode(buf []byte, to *policy.Resolution) (attempt.Call, error) {
	return x.calls.Write(buf, x.nextAttempt(to))
}

// fetch makes an attempt on the native path and reads its whole answer. The answer is complete if failure and error are nil; the error means that the
// client has disconnected.
func (x *exchange) fetch(ctx context.Context, to *policy.Resolution) (a *reading.Answer, f *upstream.Failure, err error) {
	t, began := x.nextAttempt(to), time.Now()
	x.bill.Begin(&t.To, began)
	open := func(status int, h header.List) attempt.Sink {
		b := reading.New(&x.report, &x.rounds, t, status, h)
		if status/100 == 2 {
			b.Began = began
			a, x.outcome.Current = b, b
		}
		return collector{b}
	}
	f, err = x.calls.Do(ctx, t, open, attempt.Wait{})
	return a, f, err
}

// collect makes an attempt and holds its answer. It may run concurrently with the exchange's own goroutine, so it records nothing.
func (x *exchange) collect(ctx context.Context, t *attempt.Attempt) (a *reading.Answer, f *upstream.Failure, err error) {
	open := func(status int, h header.List) attempt.Sink {
		b := reading.New(&x.report, &x.rounds, t, status, h)
		b.Holds, b.Parallel = true, true // refusals are held too: layers see one answer at a time
		if status/100 == 2 {
			a = b
		}
		return collector{b}
	}
	f, err = x.calls.Do(ctx, t, open, attempt.Wait{})
	return a, f, err
}

// collector is a sink that reads an answer to its end before any of it is sent.
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

// encodeForRetry encodes an attempt on the goroutine of a retry's stream. A panic becomes a PanicError.
func (x *exchange) encodeForRetry(to *policy.Resolution) (call attempt.Call, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = attempt.PanicError{Cause: x.panicked(r)}
		}
	}()
	return x.encode(nil, to)
}

// retryWithout returns the candidate changed so that the next attempt leaves out what it refused. ok is false if its adapter cannot, or the request
// has no attempt left. Call it after the failure was recorded.
func (x *exchange) retryWithout(to policy.Resolution, f *upstream.Failure) (again policy.Resolution, ok bool) {
	if x.attemptsExhausted() {
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
	return attempt.WithoutRefused(&x.View, to, f)
}

// attemptsExhausted reports whether the request has no attempt left.
func (x *exchange) attemptsExhausted() bool { return x.trace.AttemptCount() > x.Config.MaxRetries }
