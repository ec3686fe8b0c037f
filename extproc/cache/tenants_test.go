package cache_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/policy"
)

func account(n int) policy.Account { return policy.Account(fmt.Sprint("account ", n)) }

// touch uses each shard of a store with a new account, so that each is swept if a sweep is due. It returns the accounts.
func touch(s *cache.Store, prefix string) (names []policy.Account) {
	for n := range 300 {
		name := policy.Account(fmt.Sprint(prefix, " ", n))
		newTicket(s, name, 0, unlimited).Miss()
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// tenants are the accounts that a store holds, sorted.
func tenants(s *cache.Store) []policy.Account {
	names, err := s.Tenants(context.Background())
	if err != nil {
		return []policy.Account{policy.Account(err.Error())}
	}
	slices.Sort(names)
	return names
}

// TestExpiredTenantsAreRemoved: accounts come and go, wallets among them; a day after the last entry of an account has expired, nothing of it is kept.
func TestExpiredTenantsAreRemoved(t *testing.T) {
	const accounts = 100_000
	s, c := newStore(1 << 30)
	for n := range accounts {
		q := newTicket(s, account(n), 0, unlimited)
		q.Miss()
		finishWith(q, "x")
	}
	if entries, _ := s.Size(); entries != accounts || len(tenants(s)) != accounts || s.Sized() != accounts {
		t.Fatalf("%d entries of %d tenants, %d with a size", entries, len(tenants(s)), s.Sized())
	}
	c.pass(ttl + cache.MaxStale - 1)
	if touch(s, "almost"); len(tenants(s)) < accounts {
		t.Errorf("%d tenants are left before their entries are too old", len(tenants(s)))
	}
	c.pass(ttl + cache.MaxStale)
	want := touch(s, "new")
	if entries, bytes := s.Size(); entries != 0 || bytes != 0 || s.Sized() != 0 || !slices.Equal(tenants(s), want) {
		t.Errorf("%d entries of %d bytes are left, of %d tenants, %d with a size", entries, bytes, len(tenants(s)), s.Sized())
	}
}

// TestTenantsThatStoreNothingAreRemoved, also where no answer is ever stored: requests are counted, flushed, and say regimes.
func TestTenantsThatStoreNothingAreRemoved(t *testing.T) {
	use := map[string]func(*cache.Store, policy.Account){
		"a miss":   func(s *cache.Store, a policy.Account) { newTicket(s, a, 0, unlimited).Miss() },
		"a hit":    func(s *cache.Store, a policy.Account) { newTicket(s, a, 0, unlimited).Hit(&cache.Entry{}, 1) },
		"a regime": func(s *cache.Store, a policy.Account) { s.Enter(a, "golem", "calm") },
		"a flush": func(s *cache.Store, a policy.Account) {
			if _, _, err := s.Flush(t.Context(), a); err != nil {
				t.Error(err)
			}
		},
		"a deletion": func(s *cache.Store, a policy.Account) {
			finishWith(newTicket(s, a, 0, unlimited), "x")
			if n := removed(t, s, a, func(*cache.Entry) bool { return true }); n != 1 {
				t.Errorf("%d entries are deleted", n)
			}
		},
	}
	for name, use := range use {
		t.Run(name, func(t *testing.T) {
			s, c := newStore(0)
			for n := range 1000 {
				use(s, account(n))
			}
			if n := s.Sized(); n != 0 {
				t.Errorf("%d tenants without entries have a size", n)
			}
			c.pass(cache.MaxStale - 1)
			if touch(s, "almost"); len(tenants(s)) < 1000 {
				t.Errorf("%d tenants are left within a day of their last use", len(tenants(s)))
			}
			c.pass(ttl + cache.MaxStale)
			if want := touch(s, "new"); !slices.Equal(tenants(s), want) {
				t.Errorf("%d tenants are left", len(tenants(s))-len(want))
			}
		})
	}
}

// TestATenantInUseIsKept, with its counters, its epoch and its agents' regimes, although it stores nothing.
func TestATenantInUseIsKept(t *testing.T) {
	s, c := newStore(0)
	s.Enter("a", "golem", "calm")
	if _, _, err := s.Flush(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	newTicket(s, "a", 0, unlimited).Miss()
	for n := range 10 {
		c.pass(cache.MaxStale - 1)
		if m := s.Enter("a", "golem", ""); m.Regime != "calm" {
			t.Errorf("after %d days the regime is %q", n+1, m.Regime)
		}
		touch(s, fmt.Sprint("day ", n))
	}
	if l := listed(t, s, "a"); l.Epoch != 2 || l.Misses != 1 {
		t.Errorf("epoch %d, %d misses", l.Epoch, l.Misses)
	}
	c.pass(cache.MaxStale)
	touch(s, "last")
	if l := listed(t, s, "a"); l.Epoch != 1 || l.Misses != 0 {
		t.Errorf("a day after its last use: epoch %d, %d misses", l.Epoch, l.Misses)
	}
}

// TestATenantWhoseEntriesWereEvictedIsKeptUntilTheyWouldHaveExpired: a shared store may still have them, and a flush of all tenants has to reach them.
func TestATenantWhoseEntriesWereEvictedIsKeptUntilTheyWouldHaveExpired(t *testing.T) {
	const lifetime = 72 * time.Hour
	s, c := newStore(0)
	finishWith(s.Ticket("a", key(1), cache.Format{}, unlimited, lifetime), "x")
	s.Limit(1)
	c.pass(lifetime + cache.MaxStale - 1)
	touch(s, "almost")
	if n, _ := s.Size(); n != 0 || !slices.Contains(tenants(s), "a") {
		t.Errorf("the tenant of an evicted entry is not kept, or %d entries are", n)
	}
	c.pass(time.Hour)
	if touch(s, "new"); slices.Contains(tenants(s), "a") {
		t.Error("the tenant is kept after the expiry of its entry")
	}
}

// TestARemovedTenantMayComeBack: it is evicted like any other.
func TestARemovedTenantMayComeBack(t *testing.T) {
	s, c := newStore(0)
	for round := range 3 {
		for n := range 20 {
			finishWith(newTicket(s, "a", n, unlimited), "x")
		}
		if n := len(listed(t, s, "a").Entries); n != 20 || s.Sized() != 1 {
			t.Errorf("round %d: %d entries, %d tenants with a size", round, n, s.Sized())
		}
		if round == 2 {
			break
		}
		c.pass(ttl + cache.MaxStale)
		touch(s, fmt.Sprint("round ", round))
		if slices.Contains(tenants(s), "a") {
			t.Errorf("round %d: it is kept", round)
		}
	}
	s.Limit(1)
	if n, bytes := s.Size(); n != 0 || bytes != 0 {
		t.Errorf("%d entries of %d bytes are not evicted", n, bytes)
	}
}

// TestAFlushHoldsForASlowRequest: the tenant of a request in flight is not removed with its entries, so that its flush is remembered.
func TestAFlushHoldsForASlowRequest(t *testing.T) {
	s, c := newStore(0)
	finishWith(newTicket(s, "a", 1, unlimited), "x")
	late := newTicket(s, "a", 2, unlimited)
	c.pass(time.Second)
	if _, _, err := s.Flush(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	c.pass(12 * time.Hour)
	touch(s, "new")
	finishWith(late, "x")
	if n := len(listed(t, s, "a").Entries); n != 0 {
		t.Errorf("%d answers from before the flush are stored", n)
	}
}

// TestTenantsAreRemovedConcurrently: requests of accounts run while others are removed; run with the race detector.
func TestTenantsAreRemovedConcurrently(t *testing.T) {
	var mu sync.Mutex
	c := &clock{now: time.Unix(1_700_000_000, 0)}
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		c.pass(time.Minute)
		return c.Now()
	}
	s := cache.New(cache.Options{MaxBytes: 20_000, Now: now})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := range 2000 {
				name := account(n*8 + worker)
				q := newTicket(s, name, 0, unlimited)
				q.Miss()
				finishWith(q, "x")
				s.Enter(name, "golem", "calm")
				if n%10 == 0 {
					tenants(s)
					if _, _, err := s.Flush(t.Context(), name); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	if n := len(tenants(s)); n >= 8*2000 {
		t.Errorf("all %d tenants are left", n)
	}
	s.Limit(1)
	if entries, bytes := s.Size(); entries != 0 || bytes != 0 || s.Sized() != 0 {
		t.Errorf("%d entries of %d bytes are left, %d tenants with a size", entries, bytes, s.Sized())
	}
}
