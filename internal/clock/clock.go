// Package clock is the clock of caches and memories. It is the system's, except in a replay, whose conversations have recorded times.
package clock

import (
	"sync/atomic"
	"time"
)

var replaced atomic.Pointer[func() time.Time]

// Now returns the current time. Safe for concurrent use.
func Now() time.Time {
	if f := replaced.Load(); f != nil {
		return (*f)()
	}
	return time.Now()
}

// Since returns the time since t.
func Since(t time.Time) time.Duration { return Now().Sub(t) }

// Replace sets the clock of the whole process; nil restores the system's.
func Replace(f func() time.Time) {
	if f == nil {
		replaced.Store(nil)
		return
	}
	replaced.Store(&f)
}
