// Package polltest waits in tests for what nothing announces. What is announced is better waited for by itself.
package polltest

import (
	"os"
	"strings"
	"testing"
	"time"
)

// Patience is how long a test waits for what has to come. It bounds only how late a failure is noticed, so it is far more than a slow and
// busy machine needs.
const Patience = 2 * time.Minute

// Between two looks at a condition lies this time, and rest times what a look takes, up to longest: one that runs a program would keep a processor busy that
// others need.
const (
	interval = 10 * time.Millisecond
	rest     = 4
	longest  = time.Second
)

// Until looks at a condition again and again, in the test's own goroutine, until it is met. Once Patience is over the test fails, with
// what never came. The condition has to be all that the test asserts next of what others do.
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
			t.Fatalf("never came: %s%s", what, pressure())
		}
	}
}

// pressure is what Linux tells of how long what runs here waited for processors, memory and disks (PSI), "" where it tells nothing.
func pressure() (text string) {
	for _, of := range []string{"loadavg", "pressure/cpu", "pressure/memory", "pressure/io"} {
		if b, err := os.ReadFile("/proc/" + of); err == nil {
			text += "\n" + of + ": " + strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", "; ")
		}
	}
	return text
}

// tries is how often Soon measures at most.
const tries = 10

// Soon measures something until it takes no longer than a limit. The test fails if it takes longer each time: a busy machine delays one
// try, and a wait that is built in delays all of them.
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
