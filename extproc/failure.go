package extproc

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// recordFailed records a failed attempt of the request's order, which is not billed.
func (x *exchange) recordFailed(to policy.Resolution, f *upstream.Failure) {
	x.report.Fallback(to, f)
	x.bill.EndCall()
	x.recordFailure(to, f)
}

// recordFailure records a failed attempt: in the trace, for the provider's health, its key and its list of models.
func (x *exchange) recordFailure(to policy.Resolution, f *upstream.Failure) {
	x.recordAttempt(to, f.String(), f.Reason(), f.Measure())
	if attempt.ConcernsOwnKey(&x.View, f) {
		return
	}
	x.ranking.DemoteMissing(&to, f)
	x.report.Retained(&to, f)
	x.report.KeyRefused(&to, f)
	x.reportUnattested(&to, f)
	if f.Status == http.StatusNotFound && x.IsTokenCount() {
		return // a provider that lacks this endpoint is healthy
	}
	r := f.Result()
	if x.calls.CoolDownKey(f) {
		r.Outcome = policy.Ignored
	}
	x.gw.Health.Report(r)
}

// recordRefused records the error that the client gets. The record is written and the reservation released before the error is sent, because the
// client may read or retry immediately.
func (x *exchange) recordRefused(f *fault.Fault) {
	if f.Status == upstream.StatusOverloaded && x.Dialect.Name() != chat.Anthropic {
		f.Status = 0 // only Anthropic's clients know this status
	}
	x.trace.Fault = f
	x.voidStoredProof()
	x.settleUnfinished()
	x.bill.Release()
}

// settleRefused charges for the calls of a request that ends in an error, while its reservation is still held: the providers billed them. It returns
// nil for a request without calls.
func (x *exchange) settleRefused(f *fault.Fault) *report.Summary {
	if x.trace.Settled != nil || x.bill.Answers() == 0 || x.later.Waits(f) {
		return nil
	}
	x.trace.Fault = f
	sum, err := x.settle(context.Background(), nil, record.Invalid)
	if err != nil {
		x.gw.Log.Error("a refused request was not charged", "request", x.ID, "error", err)
		return nil
	}
	return sum
}

// errorEncoder writes error events for a stream that has begun.
func (x *exchange) errorEncoder() wire.Encoder {
	if x.current != nil {
		return x.current.Encoder
	}
	return x.Dialect.NewEncoder(wire.Options{Stream: true, RequestID: x.ID, Created: x.Started.Unix(), Request: cmp.Or(x.Original, x.Request)})
}

// reply answers a request that needs no provider.
func (x *exchange) reply(r stream.Reply) error {
	x.trace.Unbilled = &record.End{Status: r.Status, Outcome: record.OK}
	return x.client.Reply(r)
}

// exhausted returns the fault of a request that no candidate answered.
func (x *exchange) exhausted(fs []*upstream.Failure) *fault.Fault {
	if x.upstream = attempt.OwnKeyRefused(&x.View, fs); x.upstream == nil {
		x.upstream = upstream.Exhausted(fs)
	}
	if n := len(fs); n > 0 && (fs[n-1].Err == nil || !sameErrors(fs[n-1].Err.Dialect, x.Dialect.Name())) {
		x.upstream.Type = ""
	}
	return x.upstream
}

// sameErrors reports whether two formats have the same error types.
func sameErrors(a, b chat.Dialect) bool {
	family := func(d chat.Dialect) chat.Dialect {
		if d == chat.Responses || d == chat.Completions {
			return chat.OpenAI
		}
		return d
	}
	return family(a) == family(b)
}

// A panic ends one request only: its client gets a 500, or a broken stream. Every goroutine of a request recovers, because an unrecovered panic would
// end the program.

// panicked logs a panic; the error is the client's.
func (x *exchange) panicked(r any) error { return x.gw.panicked(x.ID, r) }

// guarded calls run and returns a panic as an error.
func (x *exchange) guarded(run func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = x.broken(x.panicked(r))
		}
	}()
	return run()
}

// broken returns the error that ends an exchange after a panic.
func (x *exchange) broken(cause error) error {
	if x.streamStarted { // the status was sent: a partial answer must not look complete
		return fmt.Errorf("%w: %w", stream.ErrTruncated, cause)
	}
	return cause
}

// recoverPanic logs a panic of a goroutine without a result. For defer.
func (x *exchange) recoverPanic() {
	if r := recover(); r != nil {
		_ = x.panicked(r)
	}
}

// settleRefusal bills a refused answer: the provider billed it.
func (x *exchange) settleRefusal(ctx context.Context, a *reading.Answer, f *fault.Fault) (*report.Summary, error) {
	x.current, x.trace.Fault, x.upstream = a, f, f
	return x.settle(context.WithoutCancel(ctx), a, record.Refused)
}
