package cache

import (
	"context"
	"encoding/json"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Shared is a store behind this one that several gateways share. It decides what there is: the entries in memory are copies, which are compared with it
// at each lookup, so that what one gateway deletes is served by none. Safe for concurrent use.
type Shared interface {
	// Lookup returns a tenant's entry, nil if there is none; have is the copy in memory, which is returned if it is the same. The error is that the
	// store did not answer within its time limit: then nothing is known.
	Lookup(ctx context.Context, name policy.Account, k Key, have *Entry) (*Entry, State, error)
	// Put stores an entry of a tenant behind the request, unless the tenant's epoch has changed since. It takes no time.
	Put(name policy.Account, e *Entry, epoch int)
	// Count adds to a tenant's counters behind the request; k is the entry that was served, and counts if n has a hit.
	Count(name policy.Account, k Key, n Stats)
	// Entered deletes the entries of an agent from other regimes behind the request. It takes no time.
	Entered(name policy.Account, m Market)
	// List, Matching, Remove and Flush are those of Store. Entries of a listing have no content.
	List(ctx context.Context, name policy.Account) (Listing, error)
	Matching(ctx context.Context, name policy.Account, which func(*Entry) bool) (int, error)
	Remove(ctx context.Context, name policy.Account, which func(*Entry) bool) (int, error)
	Flush(ctx context.Context, name policy.Account) (epoch, removed int, err error)
}

// State is what gateways share of a tenant besides its entries. The zero value is that of a store that is not shared.
type State struct {
	Epoch    int
	Removals int // counts the deletions of any kind; entries that are not shared are from before one, or after it
}

// heading is what a listing shows of an entry, and what it is deleted by.
type heading struct {
	Key      Key
	Model    policy.ModelID
	Provider policy.ProviderID
	Usage    chat.Usage
	Created  time.Time
	Expires  time.Time
	Market   Market
	Size     int64
}

// EncodeHeading writes what a listing shows of an entry, for DecodeHeading.
func (e *Entry) EncodeHeading() ([]byte, error) {
	return json.Marshal(&heading{e.Key, e.By.Model, e.By.Provider, e.Usage, e.Created, e.Expires, e.Market, e.Size()})
}

// DecodeHeading reads what EncodeHeading wrote, as an entry without content. hits is how often the entry was served, and semantic whether it may answer
// other questions.
func DecodeHeading(b []byte, hits int64, semantic bool) (*Entry, error) {
	var h heading
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, err
	}
	e := &Entry{Key: h.Key, Created: h.Created, Expires: h.Expires, Market: h.Market, Semantic: semantic, listed: h.Size}
	e.By.Model, e.By.Provider, e.Usage = h.Model, h.Provider, h.Usage
	e.hits.Store(hits)
	return e, nil
}

// refresh makes the copy in memory of a tenant's entry what gateways share, and notes the tenant's state. It returns false if that is not known: then nothing
// of the store may be served, and nothing is stored.
func (t *Ticket) refresh(ctx context.Context, k Key) bool {
	s := t.store
	if s.shared == nil {
		return true
	}
	have := s.peek(t.tenant, k)
	e, now, err := s.shared.Lookup(ctx, t.tenant, k, have)
	if t.Saw(now, err); err != nil {
		return false
	}
	if have != nil && have.Private && have.removals == now.Removals {
		return true
	}
	switch e {
	case have:
	case nil:
		s.forget(t.tenant, have)
	default:
		s.Restore(t.tenant, e)
	}
	return true
}

// Saw notes the state of the tenant when the request began, and whether the shared store answered.
func (t *Ticket) Saw(now State, err error) {
	switch {
	case err != nil:
		t.blind = true
	case t.saw == nil:
		t.saw = &now
	}
}

// mayStore reports whether an answer may be stored: with a shared store, only if the tenant's state is known from before the call.
func (t *Ticket) mayStore() bool {
	return t.store.shared == nil || t.saw != nil && !t.blind
}

// peek is the copy in memory of a tenant's entry; nil if there is none.
func (s *Store) peek(name policy.Account, k Key) *Entry {
	sh := s.shard(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t, ok := sh.tenants[name]
	if !ok {
		return nil
	}
	e, _ := t.entries.Peek(k)
	return e
}

// forget removes a copy from memory, unless it was replaced since.
func (s *Store) forget(name policy.Account, e *Entry) {
	sh := s.shard(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t, ok := sh.tenants[name]
	if !ok {
		return
	}
	if now, ok := t.entries.Peek(e.Key); ok && now == e {
		sh.remove(s, t, e)
	}
}
