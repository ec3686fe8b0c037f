// Package cache stores complete answers and serves them for identical requests: a hash of the request (Key), the client's directives
// (Control), a bounded in-memory store with one partition per tenant (Store), and coalescing of identical concurrent requests (Ticket).
// It does not know providers or client formats. Which requests are cacheable is decided by its callers.
package cache

import (
	"slices"
	"sync/atomic"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Format is the dialect of an answer, and whether it is streamed.
type Format struct {
	Dialect chat.Dialect
	Stream  bool
}

// Served describes how an answer was produced: by which provider and model, and at what cost.
type Served struct {
	By       policy.Resolution
	Dialect  chat.Dialect // of the provider's API
	Usage    chat.Usage
	Cost     policy.Pico // what the provider charges
	Degraded []string    // request features that the provider did not get (X-Bardo-Degraded)
	Schema   string      // value of X-Bardo-Schema: how the schema was enforced, and the result; "" without a schema

	Verified  string // result of the verification by a second model; "" without one
	Escalated string // value of X-Bardo-Escalated when a stronger model gave the answer; "" otherwise
}

// Entry is a complete stored answer. It is immutable and safe for concurrent reads.
type Entry struct {
	Served
	Key     Key
	Format  Format // of the request that produced the answer; the recorded raw bytes are in this format
	Created time.Time
	Expires time.Time // fresh before this time, stale after it
	Market  Market
	Private bool // kept only in memory
	Tag     Tag  // set with a shared store

	Semantic bool // whether it may answer other questions; only set in a listing of a shared store

	record   []byte
	listed   int64 // the size, in an entry without content
	removals int   // State.Removals when a private entry was stored
	hits     atomic.Int64
}

// Tag distinguishes an entry from others of the same key. The zero value is that of a store that is not shared.
type Tag [16]byte

// NewEntry records the events of an answer.
func NewEntry(events []chat.Event) *Entry {
	var r recorder
	for i := range events {
		r.add(&events[i])
	}
	return &Entry{record: r.b}
}

// entryOverhead is the memory in bytes that an entry takes besides its record: the struct, its list element and its map slot.
const entryOverhead = 768

// Size is the entry's memory in bytes.
func (e *Entry) Size() int64 {
	if e.listed > 0 {
		return e.listed
	}
	return int64(cap(e.record)) + entryOverhead
}

// Events yields the answer's events in order. The event is reused for the next one; its slices are valid as long as the entry.
func (e *Entry) Events(yield func(*chat.Event) bool) {
	r := reader{b: e.record}
	var ev chat.Event
	for r.next(&ev) {
		if !yield(&ev) {
			return
		}
	}
}

// Age is the time since the answer was complete.
func (e *Entry) Age(now time.Time) time.Duration { return max(0, now.Sub(e.Created)) }

// fresh reports whether the entry may be served without calling a provider.
func (e *Entry) fresh(now time.Time, c *Control) bool {
	return now.Before(e.Expires) && e.Age(now) <= c.MaxAge
}

// staleUsable reports whether the entry may be served after all providers failed.
func (e *Entry) staleUsable(now time.Time, c *Control) bool {
	late := now.Sub(e.Expires)
	return late < MaxStale && (late <= 0 || late <= c.StaleFor)
}

// MaxStale is the longest time after its expiry that an entry is kept and may be served when all providers failed.
const MaxStale = 24 * time.Hour

// entry copies the record into an entry; the recorder's buffer can be reused.
func (r *recorder) entry(s Served) *Entry {
	return &Entry{Served: s, record: slices.Clip(slices.Clone(r.b))}
}
