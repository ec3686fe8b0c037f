package cache

import (
	"slices"

	"bardo.money/gateway/policy"
)

// Listing is the stored entries and statistics of a tenant.
type Listing struct {
	Stats
	Epoch   int // counts the flushes, from 1
	Bytes   int64
	Entries []*Entry // most recently used first
}

// List returns a tenant's entries.
func (s *Store) List(name policy.Account) Listing {
	sh, now := s.shard(name), s.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t, ok := sh.tenants[name]
	if !ok {
		return Listing{Epoch: 1}
	}
	all := slices.DeleteFunc(t.entries.Values(), func(e *Entry) bool { return now.Sub(e.Expires) >= MaxStale })
	slices.Reverse(all)
	return Listing{Stats: t.Stats, Epoch: t.epoch, Bytes: t.bytes, Entries: all}
}

// Remove deletes a tenant's entries for which the predicate is true, and returns how many. Answers in flight are still stored later.
func (s *Store) Remove(name policy.Account, which func(*Entry) bool) int {
	sh := s.shard(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t, ok := sh.tenants[name]
	if !ok {
		return 0
	}
	n := 0
	for _, e := range t.entries.Values() {
		if which(e) {
			sh.remove(s, t, e)
			n++
		}
	}
	return n
}

// Count is how many of a tenant's entries Remove would delete.
func (s *Store) Count(name policy.Account, which func(*Entry) bool) (n int) {
	for _, e := range s.List(name).Entries {
		if which(e) {
			n++
		}
	}
	return n
}

// Flush begins a new epoch of a tenant: its entries are deleted, and the answers to its requests in flight will not be stored. It returns the new
// epoch and how many entries were deleted.
func (s *Store) Flush(name policy.Account) (epoch, removed int) {
	sh := s.shard(name)
	sh.mu.Lock()
	t := sh.tenant(name)
	t.epoch++
	t.flushed = s.now()
	epoch = t.epoch
	sh.mu.Unlock()
	return epoch, s.Remove(name, func(*Entry) bool { return true })
}

// Hits is the number of times the entry was served.
func (e *Entry) Hits() int64 { return e.hits.Load() }
