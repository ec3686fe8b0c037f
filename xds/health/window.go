package health

import (
	"slices"
	"time"
)

// buckets is the resolution of a window: old results expire in steps of a thirtieth.
const buckets = 30

// window counts recent results in constant memory.
type window struct {
	step  time.Duration
	slots [buckets]slot
}

type slot struct {
	turn int64 // the step since the epoch that this slot counts
	good int
	bad  int
}

func (w *window) add(now time.Time, good bool) {
	turn := now.UnixNano() / int64(w.step)
	s := &w.slots[turn%buckets]
	if s.turn != turn {
		*s = slot{turn: turn}
	}
	if good {
		s.good++
	} else {
		s.bad++
	}
}

func (w *window) count(now time.Time) (good, bad int) {
	oldest := now.UnixNano()/int64(w.step) - buckets
	for i := range w.slots {
		s := &w.slots[i]
		if s.turn > oldest {
			good += s.good
			bad += s.bad
		}
	}
	return good, bad
}

func (w *window) clear() { w.slots = [buckets]slot{} }

// latencies has the most recent ones.
type latencies struct {
	ring [64]time.Duration
	n    int
}

func (l *latencies) add(d time.Duration) {
	if d <= 0 {
		return
	}
	l.ring[l.n%len(l.ring)] = d
	l.n++
}

// median returns 0 without latencies.
func (l *latencies) median() time.Duration {
	if l.n == 0 {
		return 0
	}
	seen := slices.Clone(l.ring[:min(l.n, len(l.ring))])
	slices.Sort(seen)
	return seen[len(seen)/2]
}
