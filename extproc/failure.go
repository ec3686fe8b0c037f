package extproc

import (
	"cmp"
	"fmt"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire"
)

// errorEncoder writes error events for a stream that has begun.
func (x *exchange) errorEncoder() wire.Encoder {
	if x.outcome.Current != nil {
		return x.outcome.Current.Encoder
	}
	return x.Dialect.NewEncoder(wire.Options{Stream: true, RequestID: x.ID, Created: x.Started.Unix(), Request: cmp.Or(x.Original, x.Request)})
}

// reply answers a request that needs no provider.
func (x *exchange) reply(r stream.Reply) error {
	x.trace.Unbilled = &record.End{Status: r.Status, Outcome: record.OK}
	return x.client.Reply(r)
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
