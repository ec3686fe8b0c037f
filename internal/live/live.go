// Package live finds what is under way by its id, from any goroutine.
package live

import "sync"

// Set is what is under way, by id. The zero value is empty. Safe for concurrent use.
type Set[T any] struct {
	shards [16]struct {
		sync.RWMutex
		m map[string]*T
	}
}

// shard is the shard of an id that is not empty: their last bytes differ.
func (s *Set[T]) shard(id string) int { return int(id[len(id)-1]) % len(s.shards) }

// Add adds what has an id, which is not empty.
func (s *Set[T]) Add(id string, t *T) {
	h := &s.shards[s.shard(id)]
	h.Lock()
	if h.m == nil {
		h.m = map[string]*T{}
	}
	h.m[id] = t
	h.Unlock()
}

// Remove removes what has an id, which is not empty.
func (s *Set[T]) Remove(id string) {
	h := &s.shards[s.shard(id)]
	h.Lock()
	delete(h.m, id)
	h.Unlock()
}

// Get is what has an id; nil for nothing.
func (s *Set[T]) Get(id string) *T {
	if id == "" {
		return nil
	}
	h := &s.shards[s.shard(id)]
	h.RLock()
	defer h.RUnlock()
	return h.m[id]
}
