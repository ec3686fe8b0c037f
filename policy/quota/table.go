package quota

import (
	"hash/maphash"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const shards = 32

// table maps clients to their usage. Beyond its size the least recently seen ones are dropped, except those with requests in flight.
type table[K comparable] struct {
	seed   maphash.Seed
	shards [shards]shard[K]
}

type shard[K comparable] struct {
	mu    sync.Mutex
	seen  *simplelru.LRU[K, *usage] // makes no room by itself
	limit int
}

func newTable[K comparable](callers int) *table[K] {
	t := &table[K]{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].seen, _ = simplelru.NewLRU[K, *usage](math.MaxInt, nil) // fails for sizes below 1 only
		t.shards[i].limit = max(callers/shards, 1)
	}
	return t
}

// lock returns the usage of a client and its lock, locked.
func (t *table[K]) lock(k K) (*sync.Mutex, *usage) {
	s := &t.shards[maphash.Comparable(t.seed, k)%shards]
	s.mu.Lock()
	u, ok := s.seen.Get(k)
	if !ok {
		s.makeRoom()
		u = &usage{}
		s.seen.Add(k, u)
	}
	return &s.mu, u
}

// makeRoom drops an idle client if the shard is full. It checks only a few: if all have requests in flight, the shard grows.
func (s *shard[K]) makeRoom() {
	const looks = 8
	for range looks {
		if s.seen.Len() < s.limit {
			return
		}
		k, u, _ := s.seen.GetOldest()
		if u.active == 0 {
			s.seen.Remove(k)
			continue
		}
		s.seen.Get(k) // busy: counts as seen now
	}
}
