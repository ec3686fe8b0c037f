package cache

import (
	"slices"

	"bardo.money/gateway/policy"
)

// Listing is what a tenant has in the store.
type Listing struct {
	Stats
	Bytes   int64
	Entries []*Entry // the last used first
}

// List shows a tenant its own part.
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

// Remove drops a tenant's entries for which which is true, and returns how many. Calls under way are not touched: what they
// bring is stored.
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

// Hits is how often the entry was served.
func (e *Entry) Hits() int64 { return e.hits.Load() }
