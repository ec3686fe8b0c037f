package attempt

import (
	"sync/atomic"
	"time"
)

// Forwarded is the plan of a request whose calls Envoy makes by itself, and what is known of them: the streams of Envoy's retries write it, and the exchange
// reads it. The plan is set before the request is forwarded.
type Forwarded struct {
	Plan

	unwritten atomic.Pointer[Unwritten]
	retried   atomic.Pointer[retried] // the last one that Envoy began by itself
}

// Unwritten is an attempt whose request could not be written. Envoy ends the exchange with it.
type Unwritten struct {
	Number int // from 1
	Why    error
}

// retried is an attempt that Envoy began after another one failed.
type retried struct {
	number int
	at     time.Time
	before *retried
}

// Lacks notes an attempt whose request could not be written.
func (f *Forwarded) Lacks(u *Unwritten) { f.unwritten.Store(u) }

// Unwritten is the attempt whose request could not be written; nil for none.
func (f *Forwarded) Unwritten() *Unwritten { return f.unwritten.Load() }

// Retried notes that Envoy begins attempt n by itself.
func (f *Forwarded) Retried(n int) {
	f.retried.Store(&retried{number: n, at: time.Now(), before: f.retried.Load()})
}

// Latest is the attempt that Envoy began by itself last, and when; 0 for none.
func (f *Forwarded) Latest() (n int, at time.Time) {
	if r := f.retried.Load(); r != nil {
		return r.number, r.at
	}
	return 0, time.Time{}
}

// Began is when Envoy began attempt n by itself; zero if that is not known.
func (f *Forwarded) Began(n int) time.Time {
	for r := f.retried.Load(); r != nil; r = r.before {
		if r.number == n {
			return r.at
		}
	}
	return time.Time{}
}
