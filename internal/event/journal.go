package event

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy"
)

// Limits of what is kept for readers.
const (
	MaxKept         = 512              // events of one key
	MaxReaders      = 256              // of all keys together
	MaxReadersOfOne = 16               // of one key; the operator counts as one
	keepTime        = 10 * time.Minute // how long events are kept after the last reader of a key disconnected

	maxKeptBytes    = 256 << 10 // of one key
	maxOperator     = 8 * MaxKept
	maxOperatorSize = 8 * maxKeptBytes
	maxJournals     = 128
	maxEvent        = 16 << 10 // bytes; larger events are kept without their data
)

// ErrTooMany is returned if no further reader is admitted.
var ErrTooMany = errors.New("too many streams of events are open")

// journal keeps the latest events of each key that has, or recently had, a reader. The zero value is ready. Safe for concurrent use.
type journal struct {
	on atomic.Bool // events are being kept

	mu      sync.Mutex
	keys    map[policy.Account]*ring
	all     *ring // what operators read; nil without one
	readers int
}

// ring has the latest events of a key, or of all.
type ring struct {
	boot       string // identifies this ring in event ids: a forgotten one, or one of an earlier process, has another value
	events     []kept // the latest is last
	next       int64  // number of the next event
	size       int
	max, bytes int
	readers    map[*Reader]struct{}
	left       time.Time // when the last reader disconnected
}

// kept is one event: its frame's name and data.
type kept struct {
	name string
	data []byte
}

func newRing(most, bytes int) *ring {
	return &ring{boot: rand.Text()[:8], max: most, bytes: bytes, readers: map[*Reader]struct{}{}}
}

// add keeps an event that a reader of the ring may see.
func (r *ring) add(name string, data []byte) {
	r.next++
	r.events, r.size = append(r.events, kept{name, data}), r.size+len(data)
	n := 0
	for size := r.size; len(r.events)-n > r.max || size > r.bytes; n++ {
		size -= len(r.events[n].data)
	}
	r.drop(n)
	for reader := range r.readers {
		select {
		case reader.wake <- struct{}{}:
		default: // already notified
		}
	}
}

// drop removes the n oldest events.
func (r *ring) drop(n int) {
	for i := range n {
		r.size -= len(r.events[i].data)
	}
	clear(r.events[:n])
	r.events = r.events[n:]
}

// first returns the number of the oldest event that is kept.
func (r *ring) first() int64 { return r.next - int64(len(r.events)) }

// add keeps an event for its key, if that has readers, and for operators.
func (j *journal) add(l *line, redact func([]byte) []byte) {
	if !j.on.Load() {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forget(l.Time)
	r := j.keys[l.Account]
	if r == nil && j.all == nil {
		return
	}
	data, err := json.Marshal(frame{Time: l.Time, Account: l.Account, Data: l.Data})
	if err != nil || len(data) > maxEvent {
		data, err = json.Marshal(frame{Time: l.Time, Account: l.Account, TooLarge: err == nil})
	}
	if err != nil { // cannot fail for these types
		return
	}
	if redact != nil {
		data = redact(data)
	}
	if r != nil {
		r.add(l.Event, data)
	}
	if j.all != nil {
		j.all.add(l.Event, data)
	}
}

// frame is the data of an event in the format for readers.
type frame struct {
	Time    time.Time      `json:"time"`
	Account policy.Account `json:"account,omitempty"`
	Data    any            `json:"data,omitempty"`

	TooLarge bool `json:"too_large,omitempty"` // the data was left out
}

// forget removes rings that have had no reader for long. The lock is held.
func (j *journal) forget(now time.Time) {
	for a, r := range j.keys {
		if r.isStale(now) {
			delete(j.keys, a)
		}
	}
	if j.all != nil && j.all.isStale(now) {
		j.all = nil
	}
	j.on.Store(len(j.keys) > 0 || j.all != nil)
}

func (r *ring) isStale(now time.Time) bool { return len(r.readers) == 0 && now.Sub(r.left) > keepTime }

// of returns the ring of a key. The lock is held.
func (j *journal) of(a policy.Account) *ring {
	if r, ok := j.keys[a]; ok {
		return r
	}
	if j.keys == nil {
		j.keys = map[policy.Account]*ring{}
	}
	if len(j.keys) >= maxJournals {
		j.forgetOldest()
	}
	r := newRing(MaxKept, maxKeptBytes)
	j.keys[a] = r
	return r
}

// forgetOldest makes room for a key: it removes the ring whose last reader disconnected first. If all rings have readers none is removed; MaxReaders
// limits their number.
func (j *journal) forgetOldest() {
	var oldest policy.Account
	var found *ring
	for a, r := range j.keys {
		if len(r.readers) == 0 && (found == nil || r.left.Before(found.left)) {
			oldest, found = a, r
		}
	}
	if found != nil {
		delete(j.keys, oldest)
	}
}

// Follow starts to read the events of a key, after the one with id last; with "", from now on. Events of a key are kept from its first reader until
// ten minutes after the last one disconnected. The error is ErrTooMany. Close the reader at the end.
func (s *Sink) Follow(a policy.Account, last string) (*Reader, error) {
	return s.journal.follow(last, func(j *journal) *ring { return j.of(a) })
}

// FollowAll does the same for the events of all keys, and of none, for operators.
func (s *Sink) FollowAll(last string) (*Reader, error) {
	return s.journal.follow(last, func(j *journal) *ring {
		if j.all == nil {
			j.all = newRing(maxOperator, maxOperatorSize)
		}
		return j.all
	})
}

func (j *journal) follow(last string, of func(*journal) *ring) (*Reader, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forget(time.Now())
	if j.readers >= MaxReaders {
		return nil, ErrTooMany
	}
	r := of(j)
	if len(r.readers) >= MaxReadersOfOne {
		return nil, ErrTooMany
	}
	f := &Reader{journal: j, ring: r, wake: make(chan struct{}, 1), heartbeat: time.NewTicker(beatEvery)}
	f.at, f.gap = r.resume(last)
	r.readers[f] = struct{}{}
	j.readers++
	j.on.Store(true)
	return f, nil
}

// Reading reports whether there are readers of a key's events, or of all, so that callers can avoid creating frequent events.
func (s *Sink) Reading(a policy.Account) bool {
	if s == nil {
		return false
	}
	if s.to != nil {
		return s.to.Reading(a)
	}
	j := &s.journal
	if !j.on.Load() {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all != nil || j.keys[a] != nil
}
