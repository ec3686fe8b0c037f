// Package keyring spreads requests over the equal keys of a provider, and lets those rest that are asked too often or are refused. It
// knows neither requests nor the keys themselves, only their fingerprints.
package keyring

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"
)

// ID is a key's fingerprint. It tells nothing of the key and outlives changes of the configuration.
type ID string

// Fingerprint is a key's ID.
func Fingerprint(key string) ID {
	sum := sha256.Sum256([]byte("bardo key\x00" + key))
	return ID(hex.EncodeToString(sum[:6]))
}

// Ring holds what is known of one provider's keys, by their place in the configuration. Safe for concurrent use. The zero value and nil
// hold no key.
type Ring struct {
	mu   sync.Mutex
	keys []state
	turn uint64
}

type state struct {
	id    ID
	busy  int       // requests under way
	rests time.Time // not to be used before
	used  uint64    // the turn at which it was taken last
}

// New makes a ring of keys in their order.
func New(ids []ID) *Ring {
	r := &Ring{keys: make([]state, len(ids))}
	for i, id := range ids {
		r.keys[i].id = id
	}
	return r
}

// Len is the number of keys.
func (r *Ring) Len() int {
	if r == nil {
		return 0
	}
	return len(r.keys)
}

// Take chooses a key for an attempt and counts it as busy until Give. The preferred one is taken if it is awake and untried; else, of
// those that are awake and untried, the one with the fewest requests under way, and of equals the one that was used longest ago. If
// none is left, resting or tried ones are taken, those first that wake first. It is -1 for an empty ring.
func (r *Ring) Take(now time.Time, prefer ID, tried []int) int {
	if r.Len() == 0 {
		return -1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	best := 0
	for i := range r.keys {
		if i > 0 && r.before(i, best, now, prefer, tried) {
			best = i
		}
	}
	r.turn++
	r.keys[best].busy++
	r.keys[best].used = r.turn
	return best
}

// before tells whether key i is a better choice than key j.
func (r *Ring) before(i, j int, now time.Time, prefer ID, tried []int) bool {
	a, b := &r.keys[i], &r.keys[j]
	if x, y := slices.Contains(tried, i), slices.Contains(tried, j); x != y {
		return y
	}
	if x, y := a.rests.After(now), b.rests.After(now); x != y {
		return y
	} else if x && !a.rests.Equal(b.rests) {
		return a.rests.Before(b.rests)
	}
	if x, y := a.id == prefer, b.id == prefer; x != y {
		return x
	}
	if a.busy != b.busy {
		return a.busy < b.busy
	}
	return a.used < b.used
}

// Give ends an attempt that Take began.
func (r *Ring) Give(i int) {
	if i < 0 || i >= r.Len() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[i].busy--
}

// The bounds of a rest.
const (
	shortest = time.Second
	longest  = 5 * time.Minute
)

// Rest lets a key rest for a while, from 1 second to 5 minutes. It returns whether another key is awake.
func (r *Ring) Rest(i int, now time.Time, d time.Duration) (another bool) {
	if i < 0 || i >= r.Len() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if until := now.Add(min(max(d, shortest), longest)); until.After(r.keys[i].rests) {
		r.keys[i].rests = until
	}
	return slices.ContainsFunc(r.keys, func(k state) bool { return !k.rests.After(now) })
}

// Awake is how many keys may be used now.
func (r *Ring) Awake(now time.Time) (n int) {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.keys {
		if !r.keys[i].rests.After(now) {
			n++
		}
	}
	return n
}

// ID is the fingerprint of a key, "" for none.
func (r *Ring) ID(i int) ID {
	if i < 0 || i >= r.Len() {
		return ""
	}
	return r.keys[i].id
}

// Inherit takes over how long keys rest from the ring of an earlier configuration. What is under way there is given back there.
func (r *Ring) Inherit(old *Ring) {
	if r.Len() == 0 || old.Len() == 0 || r == old {
		return
	}
	old.mu.Lock()
	rests := make(map[ID]time.Time, len(old.keys))
	for _, k := range old.keys {
		rests[k.id] = k.rests
	}
	old.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.keys {
		r.keys[i].rests = rests[r.keys[i].id]
	}
}
