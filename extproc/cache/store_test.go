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

// clock is a time that only tests move.
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

var free = cache.Control{MaxAge: cache.Unbounded, StaleFor: cache.Unbounded}

const ttl = 5 * time.Minute

func ask(s *cache.Store, tenant policy.Account, n int, c cache.Control) *cache.Ticket {
	return s.Ask(tenant, key(n), cache.Form{Dialect: chat.OpenAI}, c, ttl)
}

// answered records an answer of this text.
func answered(t *cache.Ticket, text string) {
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

// says is what an entry's text is, "" without an entry.
func says(e *cache.Entry) (s string) {
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
	answered(ask(s, "a", 1, free), "of a")
	if got := says(ask(s, "a", 1, free).Fresh()); got != "of a" {
		t.Errorf("a gets %q", got)
	}
	for _, other := range []policy.Account{"b", "", "A"} {
		if e := ask(s, other, 1, free).Fresh(); e != nil {
			t.Errorf("%q gets %q", other, says(e))
		}
		if n := len(s.List(other).Entries); n != 0 {
			t.Errorf("%q lists %d", other, n)
		}
		if n := s.Remove(other, func(*cache.Entry) bool { return true }); n != 0 {
			t.Errorf("%q removes %d", other, n)
		}
	}
}

func TestAgeAndControl(t *testing.T) {
	with := func(change func(*cache.Control)) cache.Control {
		c := free
		change(&c)
		return c
	}
	tests := []struct {
		name           string
		age            time.Duration
		c              cache.Control
		fresh, standIn bool
	}{
		{"new", 0, free, true, true},
		{"almost too old", ttl - 1, free, true, true},
		{"too old", ttl, free, false, true},
		{"younger than wanted", time.Minute, with(func(c *cache.Control) { c.MaxAge = time.Minute }), true, true},
		{"older than wanted", time.Minute + 1, with(func(c *cache.Control) { c.MaxAge = time.Minute }), false, true},
		{"no-cache", 0, with(func(c *cache.Control) { c.NoLookup = true }), false, true},
		{"no-store", 0, with(func(c *cache.Control) { c.NoStore = true }), true, true},
		{"stale, and the caller bears it", ttl + time.Minute, with(func(c *cache.Control) { c.StaleFor = time.Minute }), false, true},
		{"stale for longer than the caller bears", ttl + time.Minute + 1, with(func(c *cache.Control) { c.StaleFor = time.Minute }), false, false},
		{"stale for almost a day", ttl + cache.MaxStale - 1, free, false, true},
		{"stale for a day", ttl + cache.MaxStale, free, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, c := newStore(0)
			answered(ask(s, "a", 1, free), "x")
			c.pass(tt.age)
			q := ask(s, "a", 1, tt.c)
			if got := q.Fresh() != nil; got != tt.fresh {
				t.Errorf("fresh: %v", got)
			}
			if got := q.StandIn() != nil; got != tt.standIn {
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
			q := ask(s, "a", 1, free)
			record(q, tt.evs...)
			q.Finish(cache.Served{})
			if got := ask(s, "a", 1, free).Fresh() != nil; got != tt.stored {
				t.Errorf("stored: %v", got)
			}
		})
	}
}

func TestNothingOfAFailedAttemptIsStored(t *testing.T) {
	s, _ := newStore(0)
	q := ask(s, "a", 1, free)
	q.Record(&chat.Event{Kind: chat.Other, Raw: []byte(": processing\n\n")})
	q.Record(&chat.Event{Kind: chat.Start, ID: "first"})
	q.Record(&chat.Event{Kind: chat.Error})
	q.Record(&chat.Event{Kind: chat.Other, Raw: []byte(": processing\n\n")})
	answered(q, "of the second")
	e := ask(s, "a", 1, free).Fresh()
	if says(e) != "of the second" {
		t.Fatalf("stored %q", says(e))
	}
	for ev := range e.Events {
		if ev.ID == "first" || ev.Raw != nil {
			t.Errorf("stored %+v", ev)
		}
	}
}

func TestAnAnswerWithoutAnEndIsNotStored(t *testing.T) {
	s, _ := newStore(0)
	q := ask(s, "a", 1, free)
	q.Finish(cache.Served{}) // it never began
	if ask(s, "a", 1, free).Fresh() != nil {
		t.Error("stored")
	}
	q = ask(s, "a", 1, free)
	q.Record(&chat.Event{Kind: chat.Start})
	q.Record(&chat.Event{Kind: chat.Text, Text: []byte("cut")})
	q.Leave(nil)
	if ask(s, "a", 1, free).Fresh() != nil {
		t.Error("stored")
	}
}

func TestNoStoreIsNotStored(t *testing.T) {
	s, _ := newStore(0)
	c := free
	c.NoStore = true
	answered(ask(s, "a", 1, c), "x")
	if ask(s, "a", 1, free).Fresh() != nil {
		t.Error("stored")
	}
}

func TestAHugeAnswerIsNotKept(t *testing.T) {
	s, _ := newStore(1 << 20)
	q := ask(s, "a", 1, free)
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

func TestANewAnswerTakesTheOldOnesPlace(t *testing.T) {
	s, _ := newStore(0)
	answered(ask(s, "a", 1, free), "old")
	answered(ask(s, "a", 1, free), "new")
	if got := says(ask(s, "a", 1, free).Fresh()); got != "new" {
		t.Errorf("got %q", got)
	}
	if n, _ := s.Size(); n != 1 {
		t.Errorf("%d entries", n)
	}
}

func TestTheLeastRecentlyUsedGoesFirst(t *testing.T) {
	s, _ := newStore(0)
	answered(ask(s, "a", 0, free), "x")
	_, one := s.Size()
	s, _ = newStore(3 * one)
	for n := range 3 {
		answered(ask(s, "a", n, free), "x")
	}
	ask(s, "a", 0, free).Fresh()
	answered(ask(s, "a", 3, free), "x")
	for n, want := range map[int]bool{0: true, 1: false, 2: true, 3: true} {
		if got := ask(s, "a", n, free).StandIn() != nil; got != want {
			t.Errorf("entry %d is there: %v", n, got)
		}
	}
}

func TestTheLargestTenantMakesRoom(t *testing.T) {
	s, _ := newStore(0)
	answered(ask(s, "a", 0, free), "x")
	_, one := s.Size()
	s, _ = newStore(100 * one)
	for _, tenant := range []policy.Account{"small", "other"} {
		for n := range 10 {
			answered(ask(s, tenant, n, free), "x")
		}
	}
	for n := range 10_000 {
		answered(ask(s, "greedy", n, free), "x")
	}
	for _, tenant := range []policy.Account{"small", "other"} {
		if n := len(s.List(tenant).Entries); n != 10 {
			t.Errorf("%s has %d entries left of 10", tenant, n)
		}
	}
	if n := len(s.List("greedy").Entries); n != 80 {
		t.Errorf("greedy has %d entries, want what is left", n)
	}
	for n := range 10_000 { // another that is as greedy gets as much
		answered(ask(s, "late", n, free), "x")
	}
	if a, b := len(s.List("greedy").Entries), len(s.List("late").Entries); a < 39 || b < 39 || a+b != 80 {
		t.Errorf("greedy has %d entries, late %d", a, b)
	}
}

// TestMemoryIsBounded does a great many things at random and looks at the sums.
func TestMemoryIsBounded(t *testing.T) {
	const limit = 200_000
	s, c := newStore(limit)
	rng := rand.New(rand.NewPCG(1, 2))
	tenants := []policy.Account{"", "a", "b", "c", "d", "e"}
	for range 5_000 {
		tenant, n := tenants[rng.IntN(len(tenants))], rng.IntN(200)
		switch rng.IntN(10) {
		case 0:
			s.Remove(tenant, func(e *cache.Entry) bool { return e.Key == key(n) })
		case 1:
			c.pass(time.Duration(rng.IntN(int(time.Hour))))
		case 2, 3, 4:
			ask(s, tenant, n, free).Fresh()
		default:
			answered(ask(s, tenant, n, free), string(make([]byte, rng.IntN(20_000))))
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
			l := s.List(tenant)
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

func TestWhatIsTooOldForAnyUseGoes(t *testing.T) {
	s, c := newStore(0)
	answered(ask(s, "a", 1, free), "old")
	c.pass(ttl + cache.MaxStale)
	if n := len(s.List("a").Entries); n != 0 {
		t.Errorf("%d entries are listed", n)
	}
	for n := range 100 { // somebody in the same part of the store
		answered(ask(s, policy.Account(rune('b'+n)), 2, free), "new")
	}
	answered(ask(s, "a", 2, free), "new")
	if n, _ := s.Size(); n != 101 {
		t.Errorf("%d entries are kept, want the new ones", n)
	}
}

func TestListing(t *testing.T) {
	s, c := newStore(0)
	for n := range 3 {
		q := ask(s, "a", n, free)
		if q.Fresh() != nil {
			t.Fatal("it is there before it was asked")
		}
		q.Miss()
		answered(q, "x")
		c.pass(time.Second)
	}
	q := ask(s, "a", 0, free)
	q.Hit(q.Fresh(), 7)
	l := s.List("a")
	if l.Hits != 1 || l.Misses != 3 || l.Saved != 7 || len(l.Entries) != 3 || l.Bytes <= 0 {
		t.Fatalf("%+v", l)
	}
	if e := l.Entries[0]; e.Key != key(0) || e.Hits() != 1 || e.By.Model != "m" || q.Age(e) != 3*time.Second {
		t.Errorf("the last used is %+v", e)
	}
	if n := s.Remove("a", func(e *cache.Entry) bool { return e.Key.ID() == key(1).ID() }); n != 1 {
		t.Errorf("removed %d", n)
	}
	if n := s.Remove("a", func(*cache.Entry) bool { return true }); n != 2 {
		t.Errorf("removed %d", n)
	}
}

func TestAnAnswerOfAProviderThatIsGoneIsNotServed(t *testing.T) {
	s, _ := newStore(0)
	answered(ask(s, "a", 1, free), "x")
	q := ask(s, "a", 1, free)
	q.Current = func(by *cache.Served) bool { return by.By.Provider != "p" }
	if e := q.Fresh(); e != nil {
		t.Error("Fresh serves it")
	}
	if e := q.StandIn(); e != nil {
		t.Error("StandIn serves it")
	}
	if e, waits := q.Join(); e != nil || waits {
		t.Error("Join serves it")
	}
	answered(q, "y")
	q.Leave(nil)
	if e := ask(s, "a", 1, free).Fresh(); says(e) != "y" {
		t.Errorf("the next one gets %q", says(e))
	}
}
