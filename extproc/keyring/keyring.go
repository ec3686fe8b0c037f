// Package keyring distributes requests over the keys of a provider and applies a cooldown to keys that were rate-limited or refused. It knows
// only the fingerprints of keys.
package keyring

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"
)

// ID is a key's fingerprint, which does not reveal the key and is stable across changes of the configuration.
type ID string

// Fingerprint returns a key's ID.
func Fingerprint(key string) ID {
	sum := sha256.Sum256([]byte("bardo key\x00" + key))
	return ID(hex.EncodeToString(sum[:6]))
}

// Ring is the state of a provider's keys, by index in the configuration. Safe for concurrent use. The zero value and nil have no keys.
type Ring struct {
	mu       sync.Mutex
	keys     []state
	sequence uint64
}

type state struct {
	id            ID
	inFlight      int       // requests in flight
	cooldownUntil time.Time // end of the cooldown
	lastUsed      uint64    // value of Ring.sequence when it was last acquired
}

// New returns a ring of keys in this order.
func New(ids []ID) *Ring {
	r := &Ring{keys: make([]state, len(ids))}
	for i, id := range ids {
		r.keys[i].id = id
	}
	return r
}

// Len returns the number of keys.
func (r *Ring) Len() int {
	if r == nil {
		return 0
	}
	return len(r.keys)
}

// Acquire chooses a key for an attempt and counts it as in flight until Release. Of the available and untried keys it returns the preferred one,
// else the one with the fewest requests in flight, of equals the least recently used. If there is none, it returns a key in cooldown, the
// earliest to end first, or a tried one. It returns -1 for an empty ring.
func (r *Ring) Acquire(now time.Time, prefer ID, tried []int) int {
	if r.Len() == 0 {
		return -1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	best := 0
	for i := range r.keys {
		if i > 0 && r.better(i, best, now, prefer, tried) {
			best = i
		}
	}
	r.sequence++
	r.keys[best].inFlight++
	r.keys[best].lastUsed = r.sequence
	return best
}

// better reports whether key i is a better choice than key j.
func (r *Ring) better(i, j int, now time.Time, prefer ID, tried []int) bool {
	a, b := &r.keys[i], &r.keys[j]
	if x, y := slices.Contains(tried, i), slices.Contains(tried, j); x != y {
		return y
	}
	if x, y := a.cooldownUntil.After(now), b.cooldownUntil.After(now); x != y {
		return y
	} else if x && !a.cooldownUntil.Equal(b.cooldownUntil) {
		return a.cooldownUntil.Before(b.cooldownUntil)
	}
	if x, y := a.id == prefer, b.id == prefer; x != y {
		return x
	}
	if a.inFlight != b.inFlight {
		return a.inFlight < b.inFlight
	}
	return a.lastUsed < b.lastUsed
}

// Release ends an attempt with the key.
func (r *Ring) Release(i int) {
	if i < 0 || i >= r.Len() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[i].inFlight--
}

// Limits of a cooldown.
const (
	minCooldown = time.Second
	maxCooldown = 5 * time.Minute
)

// Cooldown excludes a key for d, limited to between 1 second and 5 minutes. It returns whether another key is available.
func (r *Ring) Cooldown(i int, now time.Time, d time.Duration) (another bool) {
	if i < 0 || i >= r.Len() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if until := now.Add(min(max(d, minCooldown), maxCooldown)); until.After(r.keys[i].cooldownUntil) {
		r.keys[i].cooldownUntil = until
	}
	return slices.ContainsFunc(r.keys, func(k state) bool { return !k.cooldownUntil.After(now) })
}

// Available returns the number of keys that are not in cooldown.
func (r *Ring) Available(now time.Time) (n int) {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.keys {
		if !r.keys[i].cooldownUntil.After(now) {
			n++
		}
	}
	return n
}

// ID returns the fingerprint of a key, "" for none.
func (r *Ring) ID(i int) ID {
	if i < 0 || i >= r.Len() {
		return ""
	}
	return r.keys[i].id
}

// Inherit copies the cooldowns from the ring of an earlier configuration. Requests in flight are released there.
func (r *Ring) Inherit(old *Ring) {
	if r.Len() == 0 || old.Len() == 0 || r == old {
		return
	}
	old.mu.Lock()
	rests := make(map[ID]time.Time, len(old.keys))
	for _, k := range old.keys {
		rests[k.id] = k.cooldownUntil
	}
	old.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.keys {
		r.keys[i].cooldownUntil = rests[r.keys[i].id]
	}
}
