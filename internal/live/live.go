// Package live finds objects in use by their id, from any goroutine.
package live

import "sync"

// Set holds objects by id. The zero value is empty. Safe for concurrent use.
type Set[T any] struct {
	shards [16]struct {
		sync.RWMutex
		m map[string]*T
	}
}

// shard returns the shard of an id, which must not be empty: ids differ in their last bytes.
func (s *Set[T]) shard(id string) int { return int(id[len(id)-1]) % len(s.shards) }

// Add adds an object; id must not be empty.
func (s *Set[T]) Add(id string, t *T) {
	h := &s.shards[s.shard(id)]
	h.Lock()
	if h.m == nil {
		h.m = map[string]*T{}
	}
	h.m[id] = t
	h.Unlock()
}

// Remove removes an object; id must not be empty.
func (s *Set[T]) Remove(id string) {
	h := &s.shards[s.shard(id)]
	h.Lock()
	delete(h.m, id)
	h.Unlock()
}

// Get returns the object with an id; nil if there is none.
func (s *Set[T]) Get(id string) *T {
	if id == "" {
		return nil
	}
	h := &s.shards[s.shard(id)]
	h.RLock()
	defer h.RUnlock()
	return h.m[id]
}
