package cache_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// clock is a clock that only tests advance.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

func newStore(maxBytes int64) (*cache.Store, *clock) {
	c := &clock{now: time.Unix(1_700_000_000, 0)}
	return cache.New(cache.Options{MaxBytes: maxBytes, Now: c.Now}), c
}

func key(n int) (k cache.Key) {
	binary.BigEndian.PutUint64(k[:], uint64(n))
	return k
}

var unlimited = cache.Control{MaxAge: cache.Unbounded, StaleFor: cache.Unbounded}

const ttl = 5 * time.Minute

func newTicket(s *cache.Store, tenant policy.Account, n int, c cache.Control) *cache.Ticket {
	return s.Ticket(tenant, key(n), cache.Format{Dialect: chat.OpenAI}, c, ttl)
}

// finishWith records an answer with this text.
func finishWith(t *cache.Ticket, text string) {
	record(t, chat.Event{Kind: chat.Text, Text: []byte(text)}, chat.Event{Kind: chat.Stop, Reason: chat.StopEnd})
	t.Finish(cache.Served{By: policy.Resolution{Provider: "p", Model: "m"}, Cost: 100})
}

func record(t *cache.Ticket, evs ...chat.Event) {
	t.Record(&chat.Event{Kind: chat.Start})
	for i := range evs {
		t.Record(&evs[i])
	}
	t.Record(&chat.Event{Kind: chat.End})
}

// listed is a tenant's listing.
func listed(t testing.TB, s *cache.Store, name policy.Account) cache.Listing {
	t.Helper()
	l, err := s.List(t.Context(), name)
	if err != nil {
		t.Error(err)
	}
	return l
}

// removed deletes a tenant's entries.
func removed(t testing.TB, s *cache.Store, name policy.Account, which func(*cache.Entry) bool) int {
	t.Helper()
	n, err := s.Remove(t.Context(), name, which)
	if err != nil {
		t.Error(err)
	}
	return n
}

// textOf is an entry's text, "" without an entry.
func textOf(e *cache.Entry) (s string) {
	if e == nil {
		return ""
	}
	for ev := range e.Events {
		s += string(ev.Text)
	}
	return s
}

func TestK60TenantsNeverShare(t *testing.T) {
	s, _ := newStore(0)
	finishWith(newTicket(s, "a", 1, unlimited), "of a")
	if got := textOf(newTicket(s, "a", 1, unlimited).Fresh(t.Context())); got != "of a" {
		t.Errorf("a gets %q", got)
	}
	for _, other := range []policy.Account{"b", "", "A"} {
		if e := newTicket(s, other, 1, unlimited).Fresh(t.Context()); e != nil {
			t.Errorf("%q gets %q", other, textOf(e))
		}
		if n := len(listed(t, s, other).Entries); n != 0 {
			t.Errorf("%q lists %d", other, n)
		}
		if n := removed(t, s, other, func(*cache.Entry) bool { return true }); n != 0 {
			t.Errorf("%q removes %d", other, n)
		}
	}
}

func TestAgeAndControl(t *testing.T) {
	with := func(change func(*cache.Control)) cache.Control {
		c := unlimited
		change(&c)
		return c
	}
	tests := []struct {
		name           string
		age            time.Duration
		c              cache.Control
		fresh, standIn bool
	}{
		{"new", 0, unlimited, true, true},
		{"almost too old", ttl - 1, unlimited, true, true},
		{"too old", ttl, unlimited, false, true},
		{"younger than wanted", time.Minute, with(func(c *cache.Control) { c.MaxAge = time.Minute }), true, true},
		{"older than wanted", time.Minute + 1, with(func(c *cache.Control) { c.MaxAge = time.Minute }), false, true},
		{"no-cache", 0, with(func(c *cache.Control) { c.NoLookup = true }), false, true},
		{"no-store", 0, with(func(c *cache.Control) { c.NoStore = true }), true, true},
		{"stale within stale-if-error", ttl + time.Minute, with(func(c *cache.Control) { c.StaleFor = time.Minute }), false, true},
		{"stale beyond stale-if-error", ttl + time.Minute + 1, with(func(c *cache.Control) { c.StaleFor = time.Minute }), false, false},
		{"stale for almost a day", ttl + cache.MaxStale - 1, unlimited, false, true},
		{"stale for a day", ttl + cache.MaxStale, unlimited, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, c := newStore(0)
			finishWith(newTicket(s, "a", 1, unlimited), "x")
			c.pass(tt.age)
			q := newTicket(s, "a", 1, tt.c)
			if got := q.Fresh(t.Context()) != nil; got != tt.fresh {
				t.Errorf("fresh: %v", got)
			}
			if got := q.StaleFallback(t.Context()) != nil; got != tt.standIn {
				t.Errorf("stands in: %v", got)
			}
		})
	}
}

func TestD33WhatIsStored(t *testing.T) {
	text := chat.Event{Kind: chat.Text, Text: []byte("x")}
	stop := func(r chat.StopReason) chat.Event { return chat.Event{Kind: chat.Stop, Reason: r} }
	tests := []struct {
		name   string
		evs    []chat.Event
		stored bool
	}{
		{"a complete answer", []chat.Event{text, stop(chat.StopEnd)}, true},
		{"one that reached its limit", []chat.Event{text, stop(chat.StopLength)}, true},
		{"a call of a tool", []chat.Event{{Kind: chat.ToolStart}, stop(chat.StopTool)}, true},
		{"one that was refused", []chat.Event{text, stop(chat.StopRefusal)}, false},
		{"one that was refused in words", []chat.Event{{Kind: chat.Refusal, Text: []byte("no")}, stop(chat.StopEnd)}, false},
		{"of two choices one refused", []chat.Event{text, stop(chat.StopRefusal), {Kind: chat.Stop, Choice: 1, Reason: chat.StopEnd}}, false},
		{"one that the provider wants to go on with", []chat.Event{text, stop(chat.StopPause)}, false},
		{"one that failed", []chat.Event{text, {Kind: chat.Error, Err: &chat.ProviderError{}}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := newStore(0)
			q := newTicket(s, "a", 1, unlimited)
			record(q, tt.evs...)
			q.Finish(cache.Served{})
			if got := newTicket(s, "a", 1, unlimited).Fresh(t.Context()) != nil; got != tt.stored {
				t.Errorf("stored: %v", got)
			}
		})
	}
}

func TestNothingOfAFailedAttemptIsStored(t *testing.T) {
	s, _ := newStore(0)
	q := newTicket(s, "a", 1, unlimited)
	q.Record(&chat.Event{Kind: chat.Other, Raw: []byte(": processing\n\n")})
	q.Record(&chat.Event{Kind: chat.Start, ID: "first"})
	q.Record(&chat.Event{Kind: chat.Error})
	q.Record(&chat.Event{Kind: chat.Other, Raw: []byte(": processing\n\n")})
	finishWith(q, "of the second")
	e := newTicket(s, "a", 1, unlimited).Fresh(t.Context())
	if textOf(e) != "of the second" {
		t.Fatalf("stored %q", textOf(e))
	}
	for ev := range e.Events {
		if ev.ID == "first" || ev.Raw != nil {
			t.Errorf("stored %+v", ev)
		}
	}
}

func TestAnAnswerWithoutAnEndIsNotStored(t *testing.T) {
	s, _ := newStore(0)
	q := newTicket(s, "a", 1, unlimited)
	q.Finish(cache.Served{}) // it never began
	if newTicket(s, "a", 1, unlimited).Fresh(t.Context()) != nil {
		t.Error("stored")
	}
	q = newTicket(s, "a", 1, unlimited)
	q.Record(&chat.Event{Kind: chat.Start})
	q.Record(&chat.Event{Kind: chat.Text, Text: []byte("cut")})
	q.Release(nil)
	if newTicket(s, "a", 1, unlimited).Fresh(t.Context()) != nil {
		t.Error("stored")
	}
}

func TestNoStoreIsNotStored(t *testing.T) {
	s, _ := newStore(0)
	c := unlimited
	c.NoStore = true
	finishWith(newTicket(s, "a", 1, c), "x")
	if newTicket(s, "a", 1, unlimited).Fresh(t.Context()) != nil {
		t.Error("stored")
	}
}

func TestALargeAnswerIsNotStored(t *testing.T) {
	s, _ := newStore(1 << 20)
	q := newTicket(s, "a", 1, unlimited)
	q.Record(&chat.Event{Kind: chat.Start})
	for range 100 {
		q.Record(&chat.Event{Kind: chat.Text, Text: make([]byte, 10<<10)})
	}
	q.Record(&chat.Event{Kind: chat.End})
	q.Finish(cache.Served{})
	if n, bytes := s.Size(); n != 0 || bytes != 0 {
		t.Errorf("%d entries of %d bytes", n, bytes)
	}
}

func TestANewAnswerReplacesTheOldOne(t *testing.T) {
	s, _ := newStore(0)
	finishWith(newTicket(s, "a", 1, unlimited), "old")
	finishWith(newTicket(s, "a", 1, unlimited), "new")
	if got := textOf(newTicket(s, "a", 1, unlimited).Fresh(t.Context())); got != "new" {
		t.Errorf("got %q", got)
	}
	if n, _ := s.Size(); n != 1 {
		t.Errorf("%d entries", n)
	}
}

func TestTheLeastRecentlyUsedEntryIsEvictedFirst(t *testing.T) {
	s, _ := newStore(0)
	finishWith(newTicket(s, "a", 0, unlimited), "x")
	_, one := s.Size()
	s, _ = newStore(3 * one)
	for n := range 3 {
		finishWith(newTicket(s, "a", n, unlimited), "x")
	}
	newTicket(s, "a", 0, unlimited).Fresh(t.Context())
	finishWith(newTicket(s, "a", 3, unlimited), "x")
	for n, want := range map[int]bool{0: true, 1: false, 2: true, 3: true} {
		if got := newTicket(s, "a", n, unlimited).StaleFallback(t.Context()) != nil; got != want {
			t.Errorf("entry %d is there: %v", n, got)
		}
	}
}

func TestTheLargestTenantIsEvictedFirst(t *testing.T) {
	s, _ := newStore(0)
	finishWith(newTicket(s, "a", 0, unlimited), "x")
	_, one := s.Size()
	s, _ = newStore(100 * one)
	for _, tenant := range []policy.Account{"small", "other"} {
		for n := range 10 {
			finishWith(newTicket(s, tenant, n, unlimited), "x")
		}
	}
	for n := range 10_000 {
		finishWith(newTicket(s, "greedy", n, unlimited), "x")
	}
	for _, tenant := range []policy.Account{"small", "other"} {
		if n := len(listed(t, s, tenant).Entries); n != 10 {
			t.Errorf("%s has %d entries left of 10", tenant, n)
		}
	}
	if n := len(listed(t, s, "greedy").Entries); n != 80 {
		t.Errorf("greedy has %d entries, want the remaining 80", n)
	}
	for n := range 10_000 { // another tenant that stores as much gets the same share
		finishWith(newTicket(s, "late", n, unlimited), "x")
	}
	if a, b := len(listed(t, s, "greedy").Entries), len(listed(t, s, "late").Entries); a < 39 || b < 39 || a+b != 80 {
		t.Errorf("greedy has %d entries, late %d", a, b)
	}
}

// TestMemoryIsBounded runs random operations and checks the totals.
func TestMemoryIsBounded(t *testing.T) {
	const limit = 200_000
	s, c := newStore(limit)
	rng := rand.New(rand.NewPCG(1, 2))
	tenants := []policy.Account{"", "a", "b", "c", "d", "e"}
	for range 5_000 {
		tenant, n := tenants[rng.IntN(len(tenants))], rng.IntN(200)
		switch rng.IntN(10) {
		case 0:
			removed(t, s, tenant, func(e *cache.Entry) bool { return e.Key == key(n) })
		case 1:
			c.pass(time.Duration(rng.IntN(int(time.Hour))))
		case 2, 3, 4:
			newTicket(s, tenant, n, unlimited).Fresh(t.Context())
		default:
			finishWith(newTicket(s, tenant, n, unlimited), string(make([]byte, rng.IntN(20_000))))
		}
		entries, bytes := s.Size()
		if bytes > limit || bytes < 0 {
			t.Fatalf("%d bytes", bytes)
		}
		if rng.IntN(100) > 0 {
			continue
		}
		var sum, count int64
		for _, tenant := range tenants {
			l := listed(t, s, tenant)
			sum += l.Bytes
			count += int64(len(l.Entries))
		}
		if sum != bytes || count > entries {
			t.Fatalf("the tenants have %d bytes of %d, %d entries of %d", sum, bytes, count, entries)
		}
	}
	s.Limit(1)
	if n, bytes := s.Size(); n != 0 || bytes != 0 {
		t.Errorf("%d entries of %d bytes in no room", n, bytes)
	}
}

func TestEntriesPastMaxStaleAreRemoved(t *testing.T) {
	s, c := newStore(0)
	finishWith(newTicket(s, "a", 1, unlimited), "old")
	c.pass(ttl + cache.MaxStale)
	if n := len(listed(t, s, "a").Entries); n != 0 {
		t.Errorf("%d entries are listed", n)
	}
	for n := range 100 { // at least one in the same shard
		finishWith(newTicket(s, policy.Account(rune('b'+n)), 2, unlimited), "new")
	}
	finishWith(newTicket(s, "a", 2, unlimited), "new")
	if n, _ := s.Size(); n != 101 {
		t.Errorf("%d entries are kept, want the new ones", n)
	}
}

func TestListing(t *testing.T) {
	s, c := newStore(0)
	for n := range 3 {
		q := newTicket(s, "a", n, unlimited)
		if q.Fresh(t.Context()) != nil {
			t.Fatal("there is an entry before the first request")
		}
		q.Miss()
		finishWith(q, "x")
		c.pass(time.Second)
	}
	q := newTicket(s, "a", 0, unlimited)
	q.Hit(q.Fresh(t.Context()), 7)
	l := listed(t, s, "a")
	if l.Hits != 1 || l.Misses != 3 || l.Saved != 7 || len(l.Entries) != 3 || l.Bytes <= 0 {
		t.Fatalf("%+v", l)
	}
	if e := l.Entries[0]; e.Key != key(0) || e.Hits() != 1 || e.By.Model != "m" || q.Age(e) != 3*time.Second {
		t.Errorf("the last used is %+v", e)
	}
	if n := removed(t, s, "a", func(e *cache.Entry) bool { return e.Key.ID() == key(1).ID() }); n != 1 {
		t.Errorf("removed %d", n)
	}
	if n := removed(t, s, "a", func(*cache.Entry) bool { return true }); n != 2 {
		t.Errorf("removed %d", n)
	}
}

func TestAnAnswerOfARemovedProviderIsNotServed(t *testing.T) {
	s, _ := newStore(0)
	finishWith(newTicket(s, "a", 1, unlimited), "x")
	q := newTicket(s, "a", 1, unlimited)
	q.Current = func(by *cache.Served) bool { return by.By.Provider != "p" }
	if e := q.Fresh(t.Context()); e != nil {
		t.Error("Fresh serves it")
	}
	if e := q.StaleFallback(t.Context()); e != nil {
		t.Error("StaleFallback serves it")
	}
	if e, waits := q.Join(); e != nil || waits {
		t.Error("Join serves it")
	}
	finishWith(q, "y")
	q.Release(nil)
	if e := newTicket(s, "a", 1, unlimited).Fresh(t.Context()); textOf(e) != "y" {
		t.Errorf("the next one gets %q", textOf(e))
	}
}
