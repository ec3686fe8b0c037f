// Package guard keeps a panic in a goroutine from ending the process: with data_path: module the process is Envoy, and every request in it would end,
// too. It is for what runs beside requests; a panic in a request is for package extproc.
package guard

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Panic is a panic that was recovered. It says nothing of the panic's value, which may quote a request, unless that is an error of the runtime.
type Panic struct{ why error }

// Error implements error.
func (p *Panic) Error() string { return "a fault of the program: " + p.why.Error() }

// Unwrap is the runtime's error, if it is one.
func (p *Panic) Unwrap() error { return p.why }

var (
	count  atomic.Int64
	report atomic.Pointer[func(p *Panic, stack string)]
)

// Count is how many panics were recovered since the process started. Safe for concurrent use.
func Count() int64 { return count.Load() }

// Report sets what is told of each panic that is recovered from now on, with the stack of its goroutine; nil for nothing. Safe for concurrent use; f is
// called concurrently.
func Report(f func(p *Panic, stack string)) {
	if f == nil {
		report.Store(nil)
		return
	}
	report.Store(&f)
}

// Go runs f in a goroutine of its own. What f has to do in any case, such as to say that it has ended, it does in a deferred call.
func Go(f func()) { go Func(f)() }

// Func is f without its panics.
func Func(f func()) func() {
	return func() {
		_ = run(func() error {
			f()
			return nil
		})
	}
}

// Err is f with a panic as its error, a *Panic.
func Err(f func() error) func() error { return func() error { return run(f) } }

// pause is how long Again waits before f runs again.
const pause = time.Second

// Again is f, which runs until ctx is done. After a panic it is called again, a second later: a panic ends one round of it. What f returns is returned.
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
	why, ok := v.(runtime.Error)
	p := &Panic{why: why}
	if !ok {
		p.why = fmt.Errorf("a panic with a %T", v)
	}
	if f := report.Load(); f != nil {
		(*f)(p, string(debug.Stack()))
	}
	return p
}
