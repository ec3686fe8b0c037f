package extproc

import (
	"context"
	"fmt"
	"runtime/debug"

	"bardo.money/gateway/internal/fault"
)

// A fault of the program ends the request that found it, and nothing else: its client gets a 500, or a broken stream, and the rest goes on.

// guarded runs the exchange. A panic becomes an error.
func (x *exchange) guarded(ctx context.Context, d door, bodyless bool) (err error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		err = x.panicked(r)
		if x.streams { // its status has gone out: what is half done must not look complete
			err = fmt.Errorf("%w: %w", errCut, err)
		}
	}()
	return x.run(ctx, d, bodyless)
}

// panicked notes a panic, and is what the client is told. The stack has no content; the panic's own value might, and is left out unless it
// is one of the runtime's.
func (x *exchange) panicked(r any) error {
	x.gw.Metrics.Panicked()
	why, ok := r.(error)
	if !ok {
		why = fmt.Errorf("a panic with a %T", r)
	}
	x.gw.Log.Error("a request ended in a fault of the program", "request", x.ID, "error", why, "stack", string(debug.Stack()))
	return fault.New(fault.Internal, "the gateway failed to handle this request", why)
}

// shut closes the exchange, also where that panics.
func (x *exchange) shut() {
	defer func() {
		if r := recover(); r != nil {
			_ = x.panicked(r) // the client has its answer
		}
	}()
	x.close()
}
