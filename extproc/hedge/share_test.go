package hedge

import (
	"testing"
	"time"
)

// TestAShareIsCountedOverAWindow of five minutes, with what was taken back.
func TestAShareIsCountedOverAWindow(t *testing.T) {
	var s Share
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if s.Take(now, 100) {
		t.Error("one of no requests")
	}
	for range 40 {
		s.Request(now)
	}
	taken := func(at time.Time, pct int) (n int) {
		for s.Take(at, pct) {
			n++
		}
		return n
	}
	if n := taken(now, 5); n != 2 {
		t.Errorf("%d of 40 with 5 %%", n)
	}
	s.Return(now)
	if n := taken(now.Add(time.Minute), 5); n != 1 {
		t.Errorf("%d after one was taken back", n)
	}
	if n := taken(now.Add(2*time.Minute), 10); n != 2 {
		t.Errorf("%d more with 10 %%", n)
	}
	s.Return(now.Add(time.Hour)) // of a part that is not counted any more
	later := now.Add(window)
	if n := taken(later, 100); n != 0 {
		t.Errorf("%d of requests that are too old", n)
	}
	for range 10 {
		s.Request(later)
	}
	if n := taken(later, 50); n != 2 { // three of the last five minutes
		t.Errorf("%d of 10 with 50 %%", n)
	}
	if n := taken(later.Add(3*time.Minute), 50); n != 3 {
		t.Errorf("%d once the earlier ones are too old", n)
	}
}
