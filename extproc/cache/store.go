package cache

import (
	"container/heap"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"bardo.money/gateway/policy"
)

// DefaultMaxBytes is how much a store holds unless it is told otherwise.
const DefaultMaxBytes = 64 << 20

// Options of a store.
type Options struct {
	MaxBytes int64            // zero means DefaultMaxBytes
	Now      func() time.Time // nil means time.Now
}

// Store holds the entries of all tenants, each apart from the others. Its memory is bounded: when it is full, the tenant that
// holds most gives up what it has not used for longest, so that nobody can push out a tenant that holds less than it does itself.
// Safe for concurrent use.
type Store struct {
	now     func() time.Time
	max     atomic.Int64
	bytes   atomic.Int64 // of all entries, and of those about to be put in
	entries atomic.Int64
	seed    maphash.Seed
	shards  [shards]shard
}

const shards = 16

// shard is the part of a store that one lock guards.
type shard struct {
	mu      sync.Mutex
	tenants map[policy.Account]*tenant
	bySize  largest
	flights map[question]*flight
	swept   time.Time
}

// question is a key with its tenant.
type question struct {
	tenant policy.Account
	key    Key
}

// tenant is one account's part of the store.
type tenant struct {
	entries *simplelru.LRU[Key, *Entry]
	bytes   int64
	place   int // in shard.bySize
	Stats
}

// Stats are what the cache did for a tenant since the gateway started.
type Stats struct {
	Hits, Misses int64
	Saved        policy.Micro // what the hits would have been charged
}

// New makes an empty store.
func New(o Options) *Store {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{now: o.Now, seed: maphash.MakeSeed()}
	s.max.Store(o.MaxBytes)
	for i := range s.shards {
		s.shards[i] = shard{tenants: map[policy.Account]*tenant{}, flights: map[question]*flight{}, swept: o.Now()}
	}
	return s
}

// Size is how many entries there are, and their bytes.
func (s *Store) Size() (entries, bytes int64) { return s.entries.Load(), s.bytes.Load() }

// Limit changes how many bytes the store holds; what is too much goes at once. Zero means DefaultMaxBytes.
func (s *Store) Limit(bytes int64) {
	if bytes <= 0 {
		bytes = DefaultMaxBytes
	}
	s.max.Store(bytes)
	s.makeRoom()
}

// maxEntry is the largest record that is kept: a large part of the store for one answer is a bad trade.
func (s *Store) maxEntry() int { return int(s.max.Load() / 8) }

func (s *Store) shard(t policy.Account) *shard {
	return &s.shards[maphash.String(s.seed, string(t))%shards]
}

// tenant returns a tenant's part, which is made if need be. The shard is locked.
func (sh *shard) tenant(name policy.Account) *tenant {
	t, ok := sh.tenants[name]
	if !ok {
		lru, _ := simplelru.NewLRU[Key, *Entry](math.MaxInt, nil) // fails for sizes below 1 only
		t = &tenant{entries: lru}
		sh.tenants[name] = t
		heap.Push(&sh.bySize, t)
	}
	return t
}

// get returns an entry of any age that may still be of use.
func (sh *shard) get(q question, now time.Time) *Entry {
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

// put stores an entry in the place of an older one.
func (s *Store) put(name policy.Account, e *Entry) {
	if e.Size() > s.max.Load() {
		return
	}
	s.bytes.Add(e.Size()) // before it is in, so that there is never more than allowed
	s.makeRoom()
	sh := s.shard(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.sweep(s)
	t := sh.tenant(name)
	if old, ok := t.entries.Peek(e.Key); ok {
		sh.remove(s, t, old)
	}
	t.entries.Add(e.Key, e)
	t.bytes += e.Size()
	s.entries.Add(1)
	heap.Fix(&sh.bySize, t.place)
}

// remove drops an entry. The shard is locked.
func (sh *shard) remove(s *Store, t *tenant, e *Entry) {
	t.entries.Remove(e.Key)
	t.bytes -= e.Size()
	s.bytes.Add(-e.Size())
	s.entries.Add(-1)
	heap.Fix(&sh.bySize, t.place)
}

// makeRoom drops entries until there is no more than allowed.
func (s *Store) makeRoom() {
	for s.bytes.Load() > s.max.Load() {
		var most *shard
		var bytes int64
		for i := range s.shards {
			if n := s.shards[i].most(); n > bytes {
				most, bytes = &s.shards[i], n
			}
		}
		if most == nil { // what is too much is not in yet
			return
		}
		most.evict(s)
	}
}

// most is what the largest tenant of the shard holds.
func (sh *shard) most() int64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.bySize.Len() == 0 {
		return 0
	}
	return sh.bySize.tenants[0].bytes
}

// evict drops what the largest tenant has not used for longest.
func (sh *shard) evict(s *Store) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.bySize.Len() == 0 {
		return
	}
	t := sh.bySize.tenants[0]
	if _, e, ok := t.entries.GetOldest(); ok {
		sh.remove(s, t, e)
	}
}

// sweepEvery is how often a shard is looked through for what is too old for any use.
const sweepEvery = 10 * time.Minute

// sweep drops what is too old. The shard is locked.
func (sh *shard) sweep(s *Store) {
	now := s.now()
	if now.Sub(sh.swept) < sweepEvery {
		return
	}
	sh.swept = now
	for _, t := range sh.tenants {
		for _, e := range t.entries.Values() {
			if now.Sub(e.Expires) >= MaxStale {
				sh.remove(s, t, e)
			}
		}
	}
}

// largest is a heap of tenants, the one that holds most at the top. It implements heap.Interface.
type largest struct{ tenants []*tenant }

// Len is how many there are.
func (l *largest) Len() int { return len(l.tenants) }

// Less reports whether the i-th holds more than the j-th.
func (l *largest) Less(i, j int) bool { return l.tenants[i].bytes > l.tenants[j].bytes }

// Swap lets two change places.
func (l *largest) Swap(i, j int) {
	l.tenants[i], l.tenants[j] = l.tenants[j], l.tenants[i]
	l.tenants[i].place, l.tenants[j].place = i, j
}

// Push adds one at the end.
func (l *largest) Push(x any) {
	t, _ := x.(*tenant)
	t.place = len(l.tenants)
	l.tenants = append(l.tenants, t)
}

// Pop takes the last one away. Nobody asks for it: tenants stay, they are as many as there are keys.
func (l *largest) Pop() any {
	last := len(l.tenants) - 1
	t := l.tenants[last]
	l.tenants = l.tenants[:last]
	return t
}
