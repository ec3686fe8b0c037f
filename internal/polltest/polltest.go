// Package polltest waits in tests for what nothing announces. What is announced is better waited for by itself.
package polltest

import (
	"testing"
	"time"
)

// interval is how long lies between two looks at a condition.
const interval = 10 * time.Millisecond

// Until looks at a condition again and again, in the test's own goroutine, until it is met. Once patience is over the test fails, with
// what never came.
func Until(t testing.TB, patience time.Duration, what string, met func() bool) {
	t.Helper()
	over := time.After(patience)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for !met() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("never came: %s", what)
		}
	}
}
