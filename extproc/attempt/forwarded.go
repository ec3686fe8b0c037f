package attempt

import (
	"sync/atomic"
	"time"
)

// Forwarded is the plan of a request whose calls Envoy makes by itself, and what is known about them: the streams of Envoy's retries write it, and
// the exchange reads it. The plan is set before the request is forwarded.
type Forwarded struct {
	Plan

	unwritten atomic.Pointer[Unwritten]
	retried   atomic.Pointer[retried] // the last attempt that Envoy began by itself
}

// Unwritten is an attempt that could not be encoded. Envoy ends the exchange with it.
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

// SetUnwritten records an attempt that could not be encoded.
func (f *Forwarded) SetUnwritten(u *Unwritten) { f.unwritten.Store(u) }

// Unwritten returns the attempt that could not be encoded; nil for none.
func (f *Forwarded) Unwritten() *Unwritten { return f.unwritten.Load() }

// Retried records that Envoy begins attempt n by itself.
func (f *Forwarded) Retried(n int) {
	f.retried.Store(&retried{number: n, at: time.Now(), before: f.retried.Load()})
}

// Latest returns the last attempt that Envoy began by itself, and when; 0 for none.
func (f *Forwarded) Latest() (n int, at time.Time) {
	if r := f.retried.Load(); r != nil {
		return r.number, r.at
	}
	return 0, time.Time{}
}

// Began returns when Envoy began attempt n by itself; zero if unknown.
func (f *Forwarded) Began(n int) time.Time {
	for r := f.retried.Load(); r != nil; r = r.before {
		if r.number == n {
			return r.at
		}
	}
	return time.Time{}
}
