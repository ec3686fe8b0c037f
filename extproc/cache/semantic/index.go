// Package semantic finds stored answers to questions of the same meaning. A question is reduced to its form, which leaves out what does not change the
// meaning (Form); only questions of the same form are compared, by the vectors that a model computes of them (Model). The answers themselves are in package
// cache. It knows neither formats nor which requests are eligible.
//
// The form is compared first because the vectors of a question and of its opposite are similar: see docs/caching.md.
package semantic

import (
	"context"
	"crypto/sha256"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/internal/maxheap"
	"bardo.money/gateway/policy"
)

// Place identifies a group of comparable questions: those of one partition and one form.
type Place [sha256.Size]byte

// PlaceOf is the place of a turn of this form.
func PlaceOf(t *cache.Turn, form Form) Place {
	h := sha256.New()
	h.Write(t.Partition[:])
	h.Write([]byte(form))
	return Place(h.Sum(nil))
}

// Row is a question whose answer is stored.
type Row struct {
	Key     cache.Key // of its answer
	Text    string
	Vector  []float32 // of the text; nil until it is first compared
	Tag     string    // of the model that computed the vector
	Expires time.Time
}

// Bounds of the index. A row takes up to 2.5 kB.
const (
	DefaultRows  = 16384
	rowsPerPlace = 4
	maxBanned    = 1024 // of one tenant
)

// Shared is a store of questions that several gateways share: see cache.Shared.
type Shared interface {
	// Rows returns the rows of a place, with the vectors that gateways have computed, and the tenant's state. If the place is banned, nothing is compared there. An
	// error means that the store did not answer within its time limit.
	Rows(ctx context.Context, name policy.Account, p Place) (rows []Row, banned bool, now cache.State, err error)
	// Ban is that of Index.
	Ban(ctx context.Context, name policy.Account, key cache.Key) error
	// Embedded is called with a row after its vector was computed. It must not block.
	Embedded(name policy.Account, p Place, r *Row)
}

// VectorStore is a store of vectors that outlives the process, or that several gateways share. Safe for concurrent use.
type VectorStore interface {
	// Lookup returns a model's stored vectors of texts, nil for texts without one. It waits only for a short time limit of its own.
	Lookup(ctx context.Context, tag string, texts []string) [][]float32
	// Put is called with each computed vector. It must not block.
	Put(tag, text string, vector []float32)
}

// Index holds the rows and the bans of all tenants, as long as they have any. When it is full, the tenant with the most of both loses its least recently used
// place, or, if it has only bans, the oldest of them. The zero value is not usable: see New. Safe for concurrent use.
type Index struct {
	max     int // of rows and bans
	shared  Shared
	vectors VectorStore

	mu      sync.Mutex
	rows    int
	bans    int
	tenants map[policy.Account]*tenant
	bySize  maxheap.Heap[*tenant] // by the number of their rows and bans
}

// tenant is one account's rows and bans.
type tenant struct {
	name   policy.Account
	places *simplelru.LRU[Place, []Row] // oldest row first
	byKey  map[cache.Key]Place
	banned *simplelru.LRU[Place, struct{}] // nil until a place is banned
	size   maxheap.Item[*tenant]           // in Index.bySize
}

// bans is the number of places where nothing is compared.
func (t *tenant) bans() int {
	if t.banned == nil {
		return 0
	}
	return t.banned.Len()
}

// New returns an empty index of at most a number of rows and bans; zero means DefaultRows.
func New(rows int) *Index {
	if rows <= 0 {
		rows = DefaultRows
	}
	return &Index{max: rows, tenants: map[policy.Account]*tenant{}}
}

// SetShared sets the store of other gateways' rows. It is called before the index is used.
func (ix *Index) SetShared(s Shared) { ix.shared = s }

// SetVectors sets the store in which vectors are looked up and stored. It is called before the index is used.
func (ix *Index) SetVectors(s VectorStore) { ix.vectors = s }

// Lookup is Find with the rows of other gateways; it also returns the tenant's shared state. Errors are those of Shared.Rows.
func (ix *Index) Lookup(ctx context.Context, name policy.Account, p Place, now time.Time) ([]Row, cache.State, error) {
	if ix.shared == nil {
		return ix.Find(name, p, now), cache.State{}, nil
	}
	rows, banned, state, err := ix.shared.Rows(ctx, name, p)
	switch {
	case err != nil:
		return nil, state, err
	case banned:
		ix.ban(name, p)
		return nil, state, nil
	}
	for i := range rows {
		if r := &rows[i]; !ix.Has(name, r.Key) {
			ix.Add(name, p, r)
		} else if r.Vector != nil {
			ix.adopt(name, r)
		}
	}
	return ix.Find(name, p, now), state, nil // also those that this gateway has not shared yet
}

// Size is the number of rows.
func (ix *Index) Size() int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.rows
}

// Find returns the rows of a place that have not expired, newest first.
func (ix *Index) Find(name policy.Account, p Place, now time.Time) []Row {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	t, ok := ix.tenants[name]
	if !ok {
		return nil
	}
	rows, ok := t.places.Get(p)
	if !ok {
		return nil
	}
	fresh := make([]Row, 0, len(rows))
	for _, r := range slices.Backward(rows) {
		if now.Before(r.Expires) {
			fresh = append(fresh, r)
		}
	}
	if len(fresh) == 0 {
		ix.drop(t, p)
		ix.resize(t)
	}
	return fresh
}

// Add adds a row, which replaces one of the same key.
func (ix *Index) Add(name policy.Account, p Place, r *Row) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	t, ok := ix.tenants[name]
	if !ok {
		lru, _ := simplelru.NewLRU[Place, []Row](math.MaxInt, nil) // only fails for sizes below 1
		t = &tenant{name: name, places: lru, byKey: map[cache.Key]Place{}}
		t.size.Value = t
		ix.tenants[name] = t
	}
	ix.remove(t, r.Key)
	if t.banned == nil || !t.banned.Contains(p) {
		ix.insert(t, p, r)
	}
	ix.resize(t)
	for ix.rows+ix.bans > ix.max {
		ix.evict()
	}
}

// insert adds a row to a place, where it replaces the oldest one if there are rowsPerPlace. The index is locked; the caller calls resize.
func (ix *Index) insert(t *tenant, p Place, r *Row) {
	rows, _ := t.places.Get(p)
	if len(rows) == rowsPerPlace {
		delete(t.byKey, rows[0].Key)
		rows = slices.Delete(rows, 0, 1)
		ix.rows--
	}
	t.places.Add(p, append(rows, *r))
	t.byKey[r.Key] = p
	ix.rows++
}

// evict makes the largest tenant smaller. The index is locked, and not empty.
func (ix *Index) evict() {
	t := ix.bySize.Largest().Value
	if oldest, _, ok := t.places.GetOldest(); ok {
		ix.drop(t, oldest)
	} else {
		t.banned.RemoveOldest()
		ix.bans--
	}
	ix.resize(t)
}

// resize notes a tenant's size after a change, and removes a tenant that has nothing. The index is locked.
func (ix *Index) resize(t *tenant) {
	n := len(t.byKey) + t.bans()
	ix.bySize.Resize(&t.size, int64(n))
	if n == 0 {
		delete(ix.tenants, t.name)
	}
}

// Embedded stores the vector of a row, also in the shared store.
func (ix *Index) Embedded(name policy.Account, key cache.Key, vector []float32, tag string) {
	if p, r, ok := ix.embedded(name, key, vector, tag); ok && ix.shared != nil {
		ix.shared.Embedded(name, p, &r)
	}
}

// adopt stores the vector that another gateway has computed of a row, unless the row has one.
func (ix *Index) adopt(name policy.Account, r *Row) {
	if _, have, ok := ix.Question(name, r.Key); ok && have.Vector == nil {
		ix.embedded(name, r.Key, r.Vector, r.Tag)
	}
}

// embedded stores the vector of a row in memory, and returns the row; ok is false if the row no longer exists.
func (ix *Index) embedded(name policy.Account, key cache.Key, vector []float32, tag string) (p Place, r Row, ok bool) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	t, ok := ix.tenants[name]
	if !ok {
		return p, r, false
	}
	p = t.byKey[key]
	rows, _ := t.places.Peek(p)
	for i := range rows {
		if rows[i].Key == key {
			rows[i].Vector, rows[i].Tag = vector, tag
			return p, rows[i], true
		}
	}
	return p, r, false
}

// Remove removes the row of a stored answer, if there is one.
func (ix *Index) Remove(name policy.Account, key cache.Key) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if t, ok := ix.tenants[name]; ok {
		ix.remove(t, key)
		ix.resize(t)
	}
}

// Ban ends the comparison of questions at the place of a stored answer: they have the same form, and not the same meaning. An error means that a shared store
// did not answer.
func (ix *Index) Ban(ctx context.Context, name policy.Account, key cache.Key) error {
	if ix.shared != nil {
		if err := ix.shared.Ban(ctx, name, key); err != nil {
			return err
		}
	}
	ix.banAt(name, key)
	return nil
}

func (ix *Index) banAt(name policy.Account, key cache.Key) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	t, ok := ix.tenants[name]
	if !ok {
		return
	}
	p, ok := t.byKey[key]
	if !ok {
		return
	}
	before := t.bans()
	if t.banned == nil {
		t.banned, _ = simplelru.NewLRU[Place, struct{}](maxBanned, nil) // only fails for sizes below 1
	}
	t.banned.Add(p, struct{}{})
	ix.bans += t.bans() - before
	ix.drop(t, p) // at least one row: there are no more rows and bans than before
	ix.resize(t)
}

// ban drops the rows of a place that another gateway has banned. The ban is not stored: the shared store reports it at each lookup.
func (ix *Index) ban(name policy.Account, p Place) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if t, ok := ix.tenants[name]; ok {
		ix.drop(t, p)
		ix.resize(t)
	}
}

// Question is a stored answer's row and its place; ok is false if it has none.
func (ix *Index) Question(name policy.Account, key cache.Key) (p Place, r Row, ok bool) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	t, ok := ix.tenants[name]
	if !ok {
		return p, r, false
	}
	if p, ok = t.byKey[key]; !ok {
		return p, r, false
	}
	rows, _ := t.places.Peek(p)
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Key == key })
	return p, rows[i], true
}

// Has reports whether a stored answer has a row.
func (ix *Index) Has(name policy.Account, key cache.Key) bool {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	t, ok := ix.tenants[name]
	if !ok {
		return false
	}
	_, ok = t.byKey[key]
	return ok
}

// remove removes the row of a stored answer, if there is one. The index is locked; the caller calls resize.
func (ix *Index) remove(t *tenant, key cache.Key) {
	p, ok := t.byKey[key]
	if !ok {
		return
	}
	rows, _ := t.places.Peek(p)
	if len(rows) == 1 {
		ix.drop(t, p)
		return
	}
	t.places.Add(p, slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Key == key }))
	delete(t.byKey, key)
	ix.rows--
}

// drop removes a place. The index is locked; the caller calls resize.
func (ix *Index) drop(t *tenant, p Place) {
	rows, _ := t.places.Peek(p)
	for i := range rows {
		delete(t.byKey, rows[i].Key)
	}
	ix.rows -= len(rows)
	t.places.Remove(p)
}
