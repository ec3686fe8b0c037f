package cache

import (
	"slices"

	"bardo.money/gateway/policy"
)

// Listing is the stored entries and statistics of a tenant.
type Listing struct {
	Stats
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
		return Listing{}
	}
	all := slices.DeleteFunc(t.entries.Values(), func(e *Entry) bool { return now.Sub(e.Expires) >= MaxStale })
	slices.Reverse(all)
	return Listing{Stats: t.Stats, Bytes: t.bytes, Entries: all}
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

// Hits is the number of times the entry was served.
func (e *Entry) Hits() int64 { return e.hits.Load() }
