// Package guard keeps a panic in a background goroutine from ending the process: with data_path: module the process is Envoy, and all its requests
// would fail. Panics in requests are handled by package extproc.
package guard

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Panic is a recovered panic. It does not show the panic's value, which may quote a request, unless that is a runtime error.
type Panic struct{ cause error }

// Error implements error.
func (p *Panic) Error() string { return "a fault of the program: " + p.cause.Error() }

// Unwrap returns the runtime error, if it is one.
func (p *Panic) Unwrap() error { return p.cause }

var (
	count  atomic.Int64
	report atomic.Pointer[func(p *Panic, stack string)]
)

// Count returns the number of panics recovered since the process started. Safe for concurrent use.
func Count() int64 { return count.Load() }

// Report sets the function that is called for each recovered panic, with the stack of its goroutine; nil for none. Safe for concurrent use; f is
// called concurrently.
func Report(f func(p *Panic, stack string)) {
	if f == nil {
		report.Store(nil)
		return
	}
	report.Store(&f)
}

// Go runs f in a new goroutine. Steps that f must always do, such as signalling its end, belong in a deferred call.
func Go(f func()) { go Func(f)() }

// Func returns f with recovered panics.
func Func(f func()) func() {
	return func() {
		_ = run(func() error {
			f()
			return nil
		})
	}
}

// Err returns f with a panic as its error, a *Panic.
func Err(f func() error) func() error { return func() error { return run(f) } }

// pause is how long Again waits before it calls f again.
const pause = time.Second

// Again returns f for a loop that runs until ctx is done. After a panic it calls f again, a second later. It returns f's error.
func Again(ctx context.Context, f func() error) func() error {
	return func() error {
		for {
			err := run(f)
			if _, ok := err.(*Panic); !ok { //nolint:errorlint // one of f's own is never wrapped by run
				return err
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(pause):
			}
		}
	}
}

func run(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = caught(v)
		}
	}()
	return f()
}

func caught(v any) error {
	count.Add(1)
	cause, ok := v.(runtime.Error)
	p := &Panic{cause: cause}
	if !ok {
		p.cause = fmt.Errorf("a panic with a %T", v)
	}
	if f := report.Load(); f != nil {
		(*f)(p, string(debug.Stack()))
	}
	return p
}
