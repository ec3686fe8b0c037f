package event_test

import (
	"testing"
	"time"

	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
)

var watched = event.Declare[int]("test:watched", "In a test.")

// TestAWatcherGetsItsKind, even if events are written nowhere; those of a holding sink once they are released. It costs other kinds nothing.
func TestAWatcherGetsItsKind(t *testing.T) {
	var s event.Sink
	watched.Emit(&s, "a", 1) // before
	var first, second []int
	watched.Watch(&s, func(at time.Time, account policy.Account, n int) {
		if at.IsZero() || account != "a" {
			t.Errorf("%v %q", at, account)
		}
		first = append(first, n)
	})
	watched.Watch(&s, func(_ time.Time, _ policy.Account, n int) { second = append(second, n) })
	if s.On() {
		t.Error("events of other kinds are made")
	}
	watched.Emit(&s, "a", 2)
	s.Emit("test:other", "a", 3)
	held := s.Hold()
	watched.Emit(held, "a", 4)
	if len(first) != 1 {
		t.Errorf("%v before the release", first)
	}
	held.Release()
	watched.Emit(s.Hold(), "a", 5) // forgotten
	for _, got := range [][]int{first, second} {
		if len(got) != 2 || got[0] != 2 || got[1] != 4 {
			t.Errorf("%v", got)
		}
	}
	var none *event.Sink
	watched.Emit(none, "a", 6)
}
