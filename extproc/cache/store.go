package cache

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"bardo.money/gateway/internal/clock"
	"bardo.money/gateway/internal/maxheap"
	"bardo.money/gateway/policy"
)

// DefaultMaxBytes is the default size limit of a store.
const DefaultMaxBytes = 64 << 20

// Options of a store.
type Options struct {
	MaxBytes int64            // zero means DefaultMaxBytes
	Now      func() time.Time // nil means clock.Now
	// Removed is called with each entry that is removed, with a lock held: it must not use the store. May be nil.
	Removed func(policy.Account, Key)
	// Added is called with each entry that is stored, with a lock held, but not with those that Restore adds. May be nil.
	Added func(policy.Account, *Entry)
	// Shared is the authoritative store that several gateways share; nil: the memory is authoritative.
	Shared Shared
}

// Store holds the entries of all tenants, partitioned by tenant. Its memory is bounded: when it is full, the least recently used entry
// of the largest tenant is evicted, so that a tenant cannot cause the eviction of entries of one that stores less. Safe for concurrent use.
type Store struct {
	now     func() time.Time
	removed func(policy.Account, Key)
	added   func(policy.Account, *Entry)
	shared  Shared
	max     atomic.Int64
	bytes   atomic.Int64 // size of all entries, including those that are being added
	entries atomic.Int64
	seed    maphash.Seed
	shards  [shards]shard
}

const shards = 16

// shard is the part of a store that one lock guards.
type shard struct {
	mu      sync.Mutex
	tenants map[policy.Account]*tenant
	bySize  maxheap.Heap[*tenant] // by the bytes of their entries
	flights map[requestKey]*flight
	swept   time.Time
}

// requestKey is a key and its tenant.
type requestKey struct {
	tenant policy.Account
	key    Key
}

// tenant is one account's partition.
type tenant struct {
	name    policy.Account
	entries *simplelru.LRU[Key, *Entry]
	size    maxheap.Item[*tenant] // of the entries, in shard.bySize
	until   time.Time             // the partition is removed at or after this time, if it has no entries then
	epoch   int
	flushed time.Time // answers to requests that began before are not stored
	markets markets
	Stats
}

// extend keeps the partition for at least MaxStale after a time: its last use, or the expiry of an entry, which a shared store keeps as long.
func (t *tenant) extend(after time.Time) {
	if until := after.Add(MaxStale); until.After(t.until) {
		t.until = until
	}
}

// Stats are a tenant's counters since the gateway started, or since the tenant had no entries and sent no requests for MaxStale.
type Stats struct {
	Hits, Misses int64
	Saved        policy.Micro // sum of the charges that the hits avoided
}

// New returns an empty store.
func New(o Options) *Store {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Now == nil {
		o.Now = clock.Now
	}
	if o.Removed == nil {
		o.Removed = func(policy.Account, Key) {}
	}
	if o.Added == nil {
		o.Added = func(policy.Account, *Entry) {}
	}
	s := &Store{now: o.Now, removed: o.Removed, added: o.Added, shared: o.Shared, seed: maphash.MakeSeed()}
	s.max.Store(o.MaxBytes)
	for i := range s.shards {
		s.shards[i] = shard{tenants: map[policy.Account]*tenant{}, flights: map[requestKey]*flight{}, swept: o.Now()}
	}
	return s
}

// Now is the time by which entries age.
func (s *Store) Now() time.Time { return s.now() }

// Size is the number of entries and their memory in bytes.
func (s *Store) Size() (entries, bytes int64) { return s.entries.Load(), s.bytes.Load() }

// Limit changes the store's size limit and evicts entries beyond it. Zero means DefaultMaxBytes.
func (s *Store) Limit(bytes int64) {
	if bytes <= 0 {
		bytes = DefaultMaxBytes
	}
	s.max.Store(bytes)
	s.makeRoom()
}

// maxEntry is the largest record that is stored, in bytes: an eighth of the store.
func (s *Store) maxEntry() int { return int(s.max.Load() / 8) }

func (s *Store) shard(t policy.Account) *shard {
	return &s.shards[maphash.String(s.seed, string(t))%shards]
}

// tenant returns a tenant's partition, which it creates if it is missing, and notes its use. The shard is locked.
func (sh *shard) tenant(s *Store, name policy.Account) *tenant {
	t, ok := sh.tenants[name]
	if !ok {
		sh.sweep(s)                                               // also where requests are counted and no answer is ever stored
		lru, _ := simplelru.NewLRU[Key, *Entry](math.MaxInt, nil) // only fails for sizes below 1
		t = &tenant{name: name, entries: lru, epoch: 1}
		t.size.Value = t
		sh.tenants[name] = t
	}
	t.extend(s.now())
	return t
}

// get returns a fresh entry, or one that is stale for less than MaxStale.
func (sh *shard) get(q requestKey, now time.Time) *Entry {
	t, ok := sh.tenants[q.tenant]
	if !ok {
		return nil
	}
	e, ok := t.entries.Get(q.key)
	if !ok || now.Sub(e.Expires) >= MaxStale {
		return nil
	}
	return e
}

// put stores the answer to a request that began at a time, in place of an older one of the same key. It returns false if the answer is not stored, because
// it is too large, or the tenant's cache was flushed or the agent's market changed since the request began.
func (s *Store) put(name policy.Account, e *Entry, began time.Time) bool {
	if e.Size() > s.max.Load() {
		return false
	}
	s.bytes.Add(e.Size()) // before it is added, so that the limit always holds
	s.makeRoom()
	sh := s.shard(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.sweep(s)
	t := sh.tenant(s, name)
	if began.Before(t.flushed) || !t.markets.isCurrent(e.Market) {
		s.bytes.Add(-e.Size())
		return false
	}
	sh.add(s, t, e)
	s.added(name, e)
	return true
}

// add adds an entry, whose size the store has counted. The shard is locked.
func (sh *shard) add(s *Store, t *tenant, e *Entry) {
	if old, ok := t.entries.Peek(e.Key); ok {
		sh.remove(s, t, old)
	}
	t.entries.Add(e.Key, e)
	t.extend(e.Expires)
	s.entries.Add(1)
	sh.bySize.Resize(&t.size, t.size.Size()+e.Size())
}

// Waits reports whether a lookup waits for a shared store.
func (s *Store) Waits() bool { return s != nil && s.shared != nil }

// Restore adds an entry from before a restart, or of another gateway. It returns false for one that is too old or too large.
func (s *Store) Restore(name policy.Account, e *Entry) bool {
	if s.now().Sub(e.Expires) >= MaxStale || e.Size() > s.max.Load() {
		return false
	}
	s.bytes.Add(e.Size())
	s.makeRoom()
	sh := s.shard(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.add(s, sh.tenant(s, name), e)
	return true
}

// remove deletes an entry. The shard is locked.
func (sh *shard) remove(s *Store, t *tenant, e *Entry) {
	t.entries.Remove(e.Key)
	s.bytes.Add(-e.Size())
	s.entries.Add(-1)
	s.removed(t.name, e.Key)
	sh.bySize.Resize(&t.size, t.size.Size()-e.Size())
}

// makeRoom evicts entries until the store is within its limit.
func (s *Store) makeRoom() {
	for s.bytes.Load() > s.max.Load() {
		var largest *shard
		var bytes int64
		for i := range s.shards {
			if n := s.shards[i].largestBytes(); n > bytes {
				largest, bytes = &s.shards[i], n
			}
		}
		if largest == nil { // only entries that are not added yet exceed the limit
			return
		}
		largest.evict(s)
	}
}

// largestBytes is the size of the largest tenant of the shard.
func (sh *shard) largestBytes() int64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if largest := sh.bySize.Largest(); largest != nil {
		return largest.Size()
	}
	return 0
}

// evict removes the least recently used entry of the shard's largest tenant.
func (sh *shard) evict(s *Store) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	largest := sh.bySize.Largest()
	if largest == nil {
		return
	}
	if _, e, ok := largest.Value.entries.GetOldest(); ok {
		sh.remove(s, largest.Value, e)
	}
}

// sweepEvery is the interval at which a shard's expired entries and unused tenants are removed.
const sweepEvery = 10 * time.Minute

// sweep removes entries that are stale for MaxStale or more, and tenants without entries that were not used for as long. The shard is locked.
func (sh *shard) sweep(s *Store) {
	now := s.now()
	if now.Sub(sh.swept) < sweepEvery {
		return
	}
	sh.swept = now
	for name, t := range sh.tenants {
		for _, e := range t.entries.Values() {
			if now.Sub(e.Expires) >= MaxStale {
				sh.remove(s, t, e)
			}
		}
		if t.entries.Len() == 0 && !now.Before(t.until) {
			delete(sh.tenants, name)
		}
	}
}
