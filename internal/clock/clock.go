// Package clock is the time by which caches and memories age. It is the system's, except in a replay, whose conversations take place at recorded times.
package clock

import (
	"sync/atomic"
	"time"
)

var replaced atomic.Pointer[func() time.Time]

// Now is the current time. Safe for concurrent use.
func Now() time.Time {
	if f := replaced.Load(); f != nil {
		return (*f)()
	}
	return time.Now()
}

// Since is how long ago a time was.
func Since(t time.Time) time.Duration { return Now().Sub(t) }

// Replace makes f the clock of the whole process; nil brings the system's back.
func Replace(f func() time.Time) {
	if f == nil {
		replaced.Store(nil)
		return
	}
	replaced.Store(&f)
}
