package cache

import (
	"context"
	"slices"

	"bardo.money/gateway/policy"
)

// MaxListed bounds the entries of a listing.
const MaxListed = 1000

// Listing is the stored entries and statistics of a tenant.
type Listing struct {
	Stats
	Epoch   int // counts the flushes, from 1
	Count   int // of all entries
	Bytes   int64
	Entries []*Entry // most recently used first; at most MaxListed
}

// List returns a tenant's entries. An error means that a shared store did not answer.
func (s *Store) List(ctx context.Context, name policy.Account) (Listing, error) {
	if s.shared != nil {
		return s.shared.List(ctx, name)
	}
	sh, now := s.shard(name), s.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t, ok := sh.tenants[name]
	if !ok {
		return Listing{Epoch: 1}, nil
	}
	all := slices.DeleteFunc(t.entries.Values(), func(e *Entry) bool { return now.Sub(e.Expires) >= MaxStale })
	slices.Reverse(all)
	return Listing{Stats: t.Stats, Epoch: t.epoch, Count: len(all), Bytes: t.size.Size(), Entries: all[:min(len(all), MaxListed)]}, nil
}

// Tenants are the accounts that have entries, those of a shared store included, or that used the store in the last MaxStale; some may be there twice. An error
// means that a shared store did not answer.
func (s *Store) Tenants(ctx context.Context) (names []policy.Account, err error) {
	if s.shared != nil {
		if names, err = s.shared.Tenants(ctx); err != nil {
			return nil, err
		}
	}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for name := range sh.tenants {
			names = append(names, name)
		}
		sh.mu.Unlock()
	}
	return names, nil
}

// Remove deletes a tenant's entries for which the predicate is true, and returns their number. Answers to requests in flight are still stored. An error means
// that a shared store did not answer: it may still have its entries.
func (s *Store) Remove(ctx context.Context, name policy.Account, which func(*Entry) bool) (n int, err error) {
	if s.shared == nil {
		return s.remove(name, which), nil
	}
	if n, err = s.shared.Remove(ctx, name, which); err != nil {
		return n, err
	}
	return n + s.removeCopies(name, which), nil
}

// removeCopies removes entries from the memory in front of a shared store, and returns the number of private ones, which only the memory had.
func (s *Store) removeCopies(name policy.Account, which func(*Entry) bool) (private int) {
	s.remove(name, func(e *Entry) bool {
		if !which(e) {
			return false
		}
		if e.Private {
			private++
		}
		return true
	})
	return private
}

// remove is Remove in memory.
func (s *Store) remove(name policy.Account, which func(*Entry) bool) (n int) {
	sh := s.shard(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t, ok := sh.tenants[name]
	if !ok {
		return 0
	}
	for _, e := range t.entries.Values() {
		if which(e) {
			sh.remove(s, t, e)
			n++
		}
	}
	return n
}

// Matching counts the entries that Remove would delete.
func (s *Store) Matching(ctx context.Context, name policy.Account, which func(*Entry) bool) (n int, err error) {
	if s.shared == nil {
		return s.matching(name, which), nil
	}
	if n, err = s.shared.Matching(ctx, name, which); err != nil {
		return n, err
	}
	return n + s.matching(name, func(e *Entry) bool { return e.Private && which(e) }), nil
}

// matching is Matching in memory.
func (s *Store) matching(name policy.Account, which func(*Entry) bool) (n int) {
	sh, now := s.shard(name), s.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t, ok := sh.tenants[name]
	if !ok {
		return 0
	}
	for _, e := range t.entries.Values() {
		if now.Sub(e.Expires) < MaxStale && which(e) {
			n++
		}
	}
	return n
}

// Flush begins a new epoch of a tenant: its entries are deleted, and answers to its requests in flight are not stored. It returns the new epoch and the number
// of deleted entries. Errors are those of Remove.
func (s *Store) Flush(ctx context.Context, name policy.Account) (epoch, removed int, err error) {
	if s.shared != nil {
		if epoch, removed, err = s.shared.Flush(ctx, name); err != nil {
			return epoch, removed, err
		}
	}
	sh := s.shard(name)
	sh.mu.Lock()
	t := sh.tenant(s, name)
	t.epoch++
	t.flushed = s.now()
	own := t.epoch
	sh.mu.Unlock()
	all := func(*Entry) bool { return true }
	if s.shared != nil {
		return epoch, removed + s.removeCopies(name, all), nil
	}
	return own, s.remove(name, all), nil
}

// Hits is the number of times the entry was served.
func (e *Entry) Hits() int64 { return e.hits.Load() }
