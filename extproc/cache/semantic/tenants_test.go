package semantic_test

import (
	"fmt"
	"testing"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/policy"
)

// TestTenantsWithoutRowsAreRemoved: accounts come and go, wallets among them; nothing is kept of those whose rows have expired.
func TestTenantsWithoutRowsAreRemoved(t *testing.T) {
	const accounts = 100_000
	for name, remove := range map[string]func(*semantic.Index, policy.Account){
		"removed with their answers": func(ix *semantic.Index, a policy.Account) { ix.Remove(a, key(1)) },
		"found expired":              func(ix *semantic.Index, a policy.Account) { ix.Find(a, place(1), start.Add(time.Hour)) },
		"replaced and removed": func(ix *semantic.Index, a policy.Account) {
			ix.Add(a, place(2), row(1))
			ix.Remove(a, key(1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ix := semantic.New(accounts)
			for n := range accounts {
				ix.Add(policy.Account(fmt.Sprint("account ", n)), place(1), row(1))
			}
			if held, sized := ix.Tenants(); held != accounts || sized != accounts || ix.Size() != accounts {
				t.Fatalf("%d tenants, %d with a size, %d rows", held, sized, ix.Size())
			}
			for n := range accounts {
				remove(ix, policy.Account(fmt.Sprint("account ", n)))
			}
			if held, sized := ix.Tenants(); held != 0 || sized != 0 || ix.Size() != 0 {
				t.Errorf("%d tenants are left, %d with a size, %d rows", held, sized, ix.Size())
			}
		})
	}
}

func TestEvictedTenantsAreRemoved(t *testing.T) {
	ix := semantic.New(100)
	for n := range 1000 {
		ix.Add(policy.Account(fmt.Sprint("account ", n)), place(1), row(1))
	}
	if held, sized := ix.Tenants(); held != 100 || sized != 100 || ix.Size() != 100 {
		t.Errorf("%d tenants, %d with a size, %d rows; the index has room for 100", held, sized, ix.Size())
	}
}

// TestATenantIsKeptForItsBans: a banned place stays banned after the last row has expired.
func TestATenantIsKeptForItsBans(t *testing.T) {
	ix := semantic.New(0)
	ix.Add("a", place(1), row(1))
	ban(t, ix, key(1))
	if held, sized := ix.Tenants(); held != 1 || sized != 1 || ix.Size() != 0 {
		t.Errorf("after the ban %d tenants, %d with a size, %d rows", held, sized, ix.Size())
	}
	ix.Add("a", place(2), row(2))
	ix.Remove("a", key(2))
	if ix.Add("a", place(1), row(1)); ix.Size() != 0 {
		t.Error("a row is added at a banned place")
	}
}

// TestBansAreBounded: rows and bans share the limit, and the tenant with the most of both makes room, with its rows first.
func TestBansAreBounded(t *testing.T) {
	ix := semantic.New(10)
	banned := func(tenant policy.Account, n int) {
		t.Helper()
		ix.Add(tenant, place(n), row(n))
		if err := ix.Ban(t.Context(), tenant, key(n)); err != nil {
			t.Error(err)
		}
	}
	for n := range 8 {
		banned("a", n)
	}
	for n := range 2 {
		ix.Add("a", place(100+n), row(100+n))
	}
	for n := range 4 {
		ix.Add("b", place(n), row(n))
	}
	for n := range 2 {
		if ix.Has("a", key(100+n)) {
			t.Errorf("row %d of the largest tenant is left", 100+n)
		}
	}
	if ix.Size() != 4 || !ix.Has("b", key(0)) {
		t.Errorf("%d rows, want the 4 of b", ix.Size())
	}
	for n := range 4 {
		ix.Remove("b", key(n)) // which makes room
	}
	for n, want := range []bool{true, true, false} { // the two oldest bans were removed
		if ix.Add("a", place(n), row(n)); ix.Has("a", key(n)) != want {
			t.Errorf("place %d accepts a row: %v, want %v", n, !want, want)
		}
		ix.Remove("a", key(n))
	}
	for n := range 1000 {
		banned(policy.Account(fmt.Sprint("account ", n)), 1)
	}
	if held, _ := ix.Tenants(); held > 10 {
		t.Errorf("%d tenants are kept for their bans, in room for 10", held)
	}
}

// TestTheIndexKeepsNoTenantOfExpiredAnswers: the store removes the answers, and the index the rows with them.
func TestTheIndexKeepsNoTenantOfExpiredAnswers(t *testing.T) {
	now := start
	ix := semantic.New(0)
	s := cache.New(cache.Options{Now: func() time.Time { return now }, Removed: ix.Remove})
	store := func(tenant policy.Account) {
		e := &cache.Entry{Key: key(1), Created: now, Expires: now.Add(time.Minute)}
		if !s.Restore(tenant, e) {
			t.Fatal("not stored")
		}
		ix.Add(tenant, place(1), &semantic.Row{Key: e.Key, Text: "q", Expires: e.Expires})
	}
	for n := range 1000 {
		store(policy.Account(fmt.Sprint("account ", n)))
	}
	now = now.Add(time.Minute + cache.MaxStale)
	for n := range 200 { // in each part of the store
		store(policy.Account(fmt.Sprint("later ", n)))
	}
	names, err := s.Tenants(t.Context())
	if held, sized := ix.Tenants(); held != 200 || sized != 200 || len(names) != 200 || err != nil {
		t.Errorf("the index has %d tenants, %d with a size, the store %d, %v", held, sized, len(names), err)
	}
}
