package hedge

import (
	"sync"
	"time"
)

// Share bounds hedged requests to a part of all requests of the last five minutes. The zero value has seen none. Safe for concurrent use.
type Share struct {
	mu      sync.Mutex
	buckets [buckets]bucket
}

// The window in which requests are counted, and its parts.
const (
	window  = 5 * time.Minute
	buckets = 30
	step    = window / buckets
)

// bucket counts the requests of one part of the window.
type bucket struct {
	number           int64 // of the part, since 1970
	requests, hedged int
}

// Request counts a request that could be hedged or not, at now.
func (s *Share) Request(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at(now).requests++
}

// Take counts a hedged request, at now, if hedged requests are then at most pct percent of all; ok is false otherwise.
func (s *Share) Take(now time.Time, pct int) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests, hedged := 0, 1
	oldest := numberOf(now) - buckets
	for i := range s.buckets {
		if b := &s.buckets[i]; b.number > oldest {
			requests, hedged = requests+b.requests, hedged+b.hedged
		}
	}
	if hedged*100 > requests*pct {
		return false
	}
	s.at(now).hedged++
	return true
}

// Return takes back what Take counted at the time then: the request was not hedged after all.
func (s *Share) Return(then time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := &s.buckets[numberOf(then)%buckets]; b.number == numberOf(then) {
		b.hedged--
	}
}

func numberOf(t time.Time) int64 { return t.UnixNano() / int64(step) }

// at returns the current part of the window, which replaces the oldest.
func (s *Share) at(now time.Time) *bucket {
	n := numberOf(now)
	b := &s.buckets[n%buckets]
	if b.number != n {
		*b = bucket{number: n}
	}
	return b
}
