package extproc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// A fault of the program ends the request that found it, and nothing else: its client gets a 500, or a broken stream, and the rest goes on.
// Every goroutine that works for a request is guarded: a panic in one that nobody recovers from would end the program.

// brokenError is a panic in a goroutine that works for an exchange. The exchange ends with it; no other candidate is tried.
type brokenError struct{ why error }

// Error is for logs.
func (e brokenError) Error() string { return e.why.Error() }

// Unwrap is the fault that the client is told.
func (e brokenError) Unwrap() error { return e.why }

// isBroken reports whether an error is a panic.
func isBroken(err error) bool {
	_, ok := errors.AsType[brokenError](err)
	return ok
}

// guarded runs the exchange. A panic becomes an error.
func (x *exchange) guarded(ctx context.Context, d stream.Client, bodyless bool) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = x.broken(x.panicked(r))
		}
	}()
	return x.run(ctx, d, bodyless)
}

// broken is how the exchange ends with a fault of the program.
func (x *exchange) broken(why error) error {
	if x.streams { // its status has gone out: what is half done must not look complete
		return fmt.Errorf("%w: %w", errCut, why)
	}
	return why
}

// panicked notes a panic, and is what the client is told.
func (x *exchange) panicked(r any) error { return x.gw.panicked(x.ID, r) }

// panicked notes a panic that a request ended in; "" for one of which nothing is known. The stack has no content; the panic's own value
// might, and is left out unless it is one of the runtime's.
func (g *Gateway) panicked(request string, r any) error {
	g.Metrics.Panicked()
	why, ok := r.(error)
	if !ok {
		why = fmt.Errorf("a panic with a %T", r)
	}
	g.Log.Error("a request ended in a fault of the program", "request", request, "error", why, "stack", string(debug.Stack()))
	return fault.New(fault.Internal, "the gateway failed to handle this request", why)
}

// contain notes a panic of a goroutine whose work nobody waits for. It is for defer.
func (x *exchange) contain() {
	if r := recover(); r != nil {
		_ = x.panicked(r)
	}
}

// encodeBeside writes an attempt's request outside of the exchange's own goroutine. A panic becomes a brokenError.
func (x *exchange) encodeBeside(to policy.Resolution) (call attemptCall, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = brokenError{x.panicked(r)}
		}
	}()
	return x.encode(nil, to)
}

// shut closes the exchange, also where that panics: the client has its answer.
func (x *exchange) shut() {
	defer x.contain()
	x.close()
}
