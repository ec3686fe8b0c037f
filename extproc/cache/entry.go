// Package cache keeps answers, so that the same question need not be asked twice: what a question is (Key), who may be served what
// (Control), the answers of each tenant in bounded memory (Store), and one call for several who ask at the same time (Ticket).
// It knows no provider, no client's format and no money beyond what an answer once cost; whether a request is fit for
// the cache, its callers decide.
package cache

import (
	"slices"
	"sync/atomic"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Form is how an answer was, or shall be, written.
type Form struct {
	Dialect chat.Dialect
	Stream  bool
}

// Served is who gave an answer, and what it took.
type Served struct {
	By       policy.Resolution
	Spoken   chat.Dialect // the provider's
	Usage    chat.Usage
	Cost     policy.Pico // the provider's
	Degraded []string    // what the provider could not be told
	Schema   string      // how its form was asked for, and whether it has it; "" for none

	Verified  string // what a second model made of it; "" where none was asked
	Escalated string // that a better model gave it than was asked first; "" where it did not
}

// Entry is a complete answer. It is never changed; it may be read from several goroutines.
type Entry struct {
	Served
	Key     Key
	Asked   Form // how the client asked whose answer this was; raw bytes are of this form
	Created time.Time
	Expires time.Time // until then it is fresh

	record []byte
	hits   atomic.Int64
}

// NewEntry makes an entry of the events of an answer.
func NewEntry(events []chat.Event) *Entry {
	var r recorder
	for i := range events {
		r.add(&events[i])
	}
	return &Entry{record: r.b}
}

// entryOverhead is what an entry takes beside its record: itself, its place in the list and in the map.
const entryOverhead = 768

// Size is the memory that the entry takes, in bytes.
func (e *Entry) Size() int64 {
	return int64(cap(e.record)) + entryOverhead
}

// Events yields the answer's events in order. An event is valid until the next, its slices as long as the entry.
func (e *Entry) Events(yield func(*chat.Event) bool) {
	r := reader{b: e.record}
	var ev chat.Event
	for r.next(&ev) {
		if !yield(&ev) {
			return
		}
	}
}

// Age is how long ago the answer was complete.
func (e *Entry) Age(now time.Time) time.Duration { return max(0, now.Sub(e.Created)) }

// fresh reports whether the entry may be served without asking a provider.
func (e *Entry) fresh(now time.Time, c *Control) bool {
	return now.Before(e.Expires) && e.Age(now) <= c.MaxAge
}

// standsIn reports whether the entry may be served because no provider answered.
func (e *Entry) standsIn(now time.Time, c *Control) bool {
	late := now.Sub(e.Expires)
	return late < MaxStale && (late <= 0 || late <= c.StaleFor)
}

// MaxStale is for how long past its time an entry may stand in for providers that failed.
const MaxStale = 24 * time.Hour

// entry makes an entry of what was recorded. Nothing of the record is shared with its buffer.
func (r *recorder) entry(s Served) *Entry {
	return &Entry{Served: s, record: slices.Clip(slices.Clone(r.b))}
}
