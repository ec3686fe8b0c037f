package quota

import (
	"hash/maphash"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const shards = 32

// counters are the counters of one client.
type counters interface {
	busy() bool // must not be dropped; called with the lock of the shard
}

// table maps clients to their counters. Beyond its size the least recently used ones are dropped, except busy ones.
type table[K comparable, V counters] struct {
	seed   maphash.Seed
	empty  func(K) V
	shards [shards]shard[K, V]
}

type shard[K comparable, V counters] struct {
	mu    sync.Mutex
	seen  *simplelru.LRU[K, V] // its own limit is never reached
	limit int
}

func newTable[K comparable, V counters](callers int, empty func(K) V) *table[K, V] {
	t := &table[K, V]{seed: maphash.MakeSeed(), empty: empty}
	for i := range t.shards {
		t.shards[i].seen, _ = simplelru.NewLRU[K, V](math.MaxInt, nil) // fails for sizes below 1 only
		t.shards[i].limit = max(callers/shards, 1)
	}
	return t
}

// lock returns the counters of a client and their shard's mutex, which is locked.
func (t *table[K, V]) lock(k K) (*sync.Mutex, V) {
	s := &t.shards[maphash.Comparable(t.seed, k)%shards]
	s.mu.Lock()
	u, ok := s.seen.Get(k)
	if !ok {
		s.makeRoom()
		u = t.empty(k)
		s.seen.Add(k, u)
	}
	return &s.mu, u
}

// makeRoom drops idle clients while the shard is full. It checks only a few: if all are busy, the shard grows.
func (s *shard[K, V]) makeRoom() {
	const looks = 8
	for range looks {
		if s.seen.Len() < s.limit {
			return
		}
		k, u, _ := s.seen.GetOldest()
		if !u.busy() {
			s.seen.Remove(k)
			continue
		}
		s.seen.Get(k) // busy: counts as seen now
	}
}

// each calls f with the counters of every client, without a lock.
func (t *table[K, V]) each(f func(V)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		all := s.seen.Values()
		s.mu.Unlock()
		for _, v := range all {
			f(v)
		}
	}
}
