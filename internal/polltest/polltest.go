// Package polltest polls conditions in tests that nothing signals. Conditions with a signal should wait for that.
package polltest

import (
	"os"
	"strings"
	"testing"
	"time"
)

// Patience is the timeout of a condition. It only limits how late a failure is noticed, so it is far longer than a slow and busy machine needs.
const Patience = 2 * time.Minute

// The polling interval is at least interval and rest times the duration of a check, at most longest: a check that runs a program would otherwise keep
// a processor busy that others need.
const (
	interval = 10 * time.Millisecond
	rest     = 4
	longest  = time.Second
)

// Until polls a condition in the test's own goroutine until it is met. After the timeout the test fails, with what. The condition must cover
// everything that the test asserts next about other goroutines.
func Until(t testing.TB, what string, met func() bool) {
	t.Helper()
	over := time.After(Patience)
	for {
		began := time.Now()
		if met() {
			return
		}
		select {
		case <-time.After(min(max(interval, rest*time.Since(began)), longest)):
		case <-over:
			t.Fatalf("never came: %s%s", what, stallInfo())
		}
	}
}

// stallInfo returns Linux's pressure stall information of processors, memory and disks (PSI), "" if there is none.
func stallInfo() (text string) {
	for _, of := range []string{"loadavg", "pressure/cpu", "pressure/memory", "pressure/io"} {
		if b, err := os.ReadFile("/proc/" + of); err == nil {
			text += "\n" + of + ": " + strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", "; ")
		}
	}
	return text
}

// tries is the maximum number of measurements of Soon.
const tries = 10

// Soon measures something until it takes no longer than a limit. The test fails if every attempt takes longer: a busy machine delays one attempt, and
// a built-in wait delays all of them.
func Soon(t testing.TB, limit time.Duration, what string, try func() time.Duration) {
	t.Helper()
	var took []time.Duration
	for range tries {
		d := try()
		if d <= limit {
			return
		}
		took = append(took, d)
	}
	t.Errorf("%s took %s, want %s at most", what, took, limit)
}
