package cache

import (
	"context"
	"encoding/json"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Shared is an authoritative store that several gateways share. Entries in memory are copies, which each lookup compares with it, so that an entry that one
// gateway deletes is served by none. Safe for concurrent use.
type Shared interface {
	// Lookup returns a tenant's entry, nil if there is none; have is the copy in memory, which is returned if it is the same. An error means that the
	// store did not answer within its time limit.
	Lookup(ctx context.Context, name policy.Account, k Key, have *Entry) (*Entry, State, error)
	// Put asynchronously stores an entry of a tenant, unless the tenant's epoch has changed. It does not block.
	Put(name policy.Account, e *Entry, epoch int)
	// Count asynchronously adds to a tenant's counters; k is the entry that was served, if n has a hit. It does not block.
	Count(name policy.Account, k Key, n Stats)
	// Entered asynchronously deletes the entries of an agent from other regimes. It does not block.
	Entered(name policy.Account, m Market)
	// Tenants, List, Matching, Remove and Flush are those of Store. Entries of a listing have no content.
	Tenants(ctx context.Context) ([]policy.Account, error)
	List(ctx context.Context, name policy.Account) (Listing, error)
	Matching(ctx context.Context, name policy.Account, which func(*Entry) bool) (int, error)
	Remove(ctx context.Context, name policy.Account, which func(*Entry) bool) (int, error)
	Flush(ctx context.Context, name policy.Account) (epoch, removed int, err error)
}

// State is the state of a tenant that gateways share besides its entries. The zero value is that of a store that is not shared.
type State struct {
	Epoch    int
	Removals int // counts deletions of any kind; a private entry is valid only until the next one
}

// heading is the metadata by which entries are listed and selected for deletion.
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

// EncodeHeading encodes an entry's metadata for DecodeHeading.
func (e *Entry) EncodeHeading() ([]byte, error) {
	return json.Marshal(&heading{e.Key, e.By.Model, e.By.Provider, e.Usage, e.Created, e.Expires, e.Market, e.Size()})
}

// DecodeHeading decodes the result of EncodeHeading, as an entry without content. hits is the number of times that the entry was served; semantic is whether it
// may answer other questions.
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

// refresh updates the copy in memory of a tenant's entry from the shared store, and records the tenant's state. It returns false if that store did not answer:
// then nothing may be served or stored.
func (t *Ticket) refresh(ctx context.Context, k Key) bool {
	s := t.store
	if s.shared == nil {
		return true
	}
	have := s.peek(t.tenant, k)
	e, now, err := s.shared.Lookup(ctx, t.tenant, k, have)
	if t.RecordState(now, err); err != nil {
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

// RecordState records the tenant's state at the beginning of the request, or that the shared store did not answer.
func (t *Ticket) RecordState(now State, err error) {
	switch {
	case err != nil:
		t.sharedFailed = true
	case t.sharedState == nil:
		t.sharedState = &now
	}
}

// mayStore reports whether an answer may be stored: with a shared store, only if the tenant's state is known from before the call.
func (t *Ticket) mayStore() bool {
	return t.store.shared == nil || t.sharedState != nil && !t.sharedFailed
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
