// Package cachetest tests what every store of answers must do, whatever its implementation. Only tests import it.
package cachetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Gateway is the stores of one gateway.
type Gateway struct {
	Store *cache.Store
	Index *semantic.Index
}

// Open opens the stores of a gateway, with a limit of bytes for entries; 0 means the default. The gateways of a test share a shared store.
type Open func(t *testing.T, bytes int64) *Gateway

// Everything is a request without directives.
var Everything = cache.Control{MaxAge: cache.Unbounded, StaleFor: cache.Unbounded}

const lifetime = time.Hour

// Ticket is the n-th request of a tenant.
func (g *Gateway) Ticket(tenant policy.Account, n int, c cache.Control) *cache.Ticket {
	return g.Store.Ticket(tenant, Key(n), cache.Format{Dialect: chat.OpenAI}, c, lifetime)
}

// Key is that of the n-th request.
func Key(n int) cache.Key { return cache.Key{byte(n >> 8), byte(n), 1} }

// Answer sends a request that is not stored, and stores a text as its answer.
func (g *Gateway) Answer(t *testing.T, tenant policy.Account, n int, text string) {
	t.Helper()
	k := g.Ticket(tenant, n, Everything)
	if e := k.Fresh(t.Context()); e != nil {
		t.Fatalf("request %d of %q has the answer %q", n, tenant, Text(e))
	}
	Finish(k, text, "m")
}

// Finish records a model's answer to a request.
func Finish(k *cache.Ticket, text string, model policy.ModelID) {
	for _, ev := range []chat.Event{{Kind: chat.Start}, {Kind: chat.Text, Text: []byte(text)}, {Kind: chat.Stop, Reason: chat.StopEnd}, {Kind: chat.End}} {
		k.Record(&ev)
	}
	k.Finish(cache.Served{By: policy.Resolution{Provider: "p", Model: model}, Usage: chat.Usage{Input: 5, Output: 7}, Cost: 100})
}

// Text is the text of an answer, "" for nil.
func Text(e *cache.Entry) (s string) {
	if e == nil {
		return ""
	}
	for ev := range e.Events {
		s += string(ev.Text)
	}
	return s
}

// Get is the answer to the n-th request of a tenant; "" if there is none.
func (g *Gateway) Get(t *testing.T, tenant policy.Account, n int) string {
	t.Helper()
	return Text(g.Ticket(tenant, n, Everything).Fresh(t.Context()))
}

// Run runs the tests that every store must pass.
func Run(t *testing.T, open Open) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, Open)
	}{
		{"answers are found by tenant and key", answersAreFound},
		{"directives hold", directivesHold},
		{"entries are listed and counted", entriesAreListed},
		{"entries are deleted one by one, by model, and all", entriesAreDeleted},
		{"a flush holds for requests in flight", flushHoldsInFlight},
		{"entries of another regime are deleted", regimes},
		{"memory is bounded, and a large tenant makes room", memoryIsBounded},
		{"private entries are found and deleted", privateEntries},
		{"questions are found by place, and banned", questions},
		{"concurrent requests", concurrentRequests},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

func answersAreFound(t *testing.T, open Open) {
	t.Helper()
	g := open(t, 0)
	g.Answer(t, "a", 1, "of a")
	g.Answer(t, "b", 1, "of b")
	g.Answer(t, "", 1, "of nobody")
	for tenant, want := range map[policy.Account]string{"a": "of a", "b": "of b", "": "of nobody", "A": "", "aa": ""} {
		if got := g.Get(t, tenant, 1); got != want {
			t.Errorf("K-60 %q gets %q, want %q", tenant, got, want)
		}
		if got := g.Get(t, tenant, 2); got != "" {
			t.Errorf("another request of %q gets %q", tenant, got)
		}
	}
	for range 100 {
		if got := g.Get(t, "a", 1); got != "of a" {
			t.Fatalf("K-63 a gets %q", got)
		}
	}
	Finish(forced(t, g, "a", 1), "newer", "m")
	if got := g.Get(t, "a", 1); got != "newer" {
		t.Errorf("a gets %q after a newer answer", got)
	}
}

// forced is a request that skips the lookup.
func forced(t *testing.T, g *Gateway, tenant policy.Account, n int) *cache.Ticket {
	t.Helper()
	c := Everything
	c.NoLookup = true
	k := g.Ticket(tenant, n, c)
	if e := k.Fresh(t.Context()); e != nil {
		t.Errorf("no-cache gets %q", Text(e))
	}
	return k
}

func directivesHold(t *testing.T, open Open) {
	t.Helper()
	g := open(t, 0)
	none := Everything
	none.NoStore = true
	k := g.Ticket("a", 1, none)
	k.Fresh(t.Context())
	Finish(k, "not stored", "m")
	if got := g.Get(t, "a", 1); got != "" {
		t.Errorf("no-store stores %q", got)
	}
	g.Answer(t, "a", 1, "stored")
	young := Everything
	young.MaxAge = 0
	if got := Text(g.Ticket("a", 1, young).Fresh(t.Context())); got != "" && got != "stored" {
		t.Errorf("max-age=0 gets %q", got)
	}
	k = forced(t, g, "a", 1)
	if got := Text(k.StaleFallback(t.Context())); got != "stored" {
		t.Errorf("when providers fail, no-cache gets %q", got)
	}
}

// list is a tenant's listing.
func (g *Gateway) list(t *testing.T, tenant policy.Account) cache.Listing {
	t.Helper()
	l, err := g.Store.List(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func entriesAreListed(t *testing.T, open Open) {
	t.Helper()
	g := open(t, 0)
	if l := g.list(t, "a"); l.Epoch != 1 || l.Count != 0 || len(l.Entries) != 0 {
		t.Errorf("an empty listing is %+v", l)
	}
	for n := range 3 {
		k := g.Ticket("a", n, Everything)
		k.Fresh(t.Context())
		k.Miss()
		Finish(k, "an answer", policy.ModelID(fmt.Sprint("m", n)))
	}
	g.Answer(t, "b", 1, "of b")
	g.list(t, "a") // waits for asynchronous writes
	k := g.Ticket("a", 1, Everything)
	e := k.Fresh(t.Context())
	if e == nil {
		t.Fatal("no answer")
	}
	k.Hit(e, 17)
	l := g.list(t, "a")
	if l.Count != 3 || len(l.Entries) != 3 || l.Hits != 1 || l.Misses != 3 || l.Saved != 17 || l.Bytes < 3*100 {
		t.Fatalf("the listing is %+v", l)
	}
	first := l.Entries[0]
	if first.Key != Key(1) || first.By.Model != "m1" || first.By.Provider != "p" || first.Hits() != 1 || first.Usage.Input != 5 || first.Usage.Output != 7 ||
		first.Size() <= 0 || first.Expires.Sub(first.Created) != lifetime {
		t.Errorf("the entry that was used last is %+v, %d hits", first.Served, first.Hits())
	}
}

// remove deletes a tenant's entries, after it has counted them.
func (g *Gateway) remove(t *testing.T, tenant policy.Account, which func(*cache.Entry) bool) int {
	t.Helper()
	would, err := g.Store.Matching(t.Context(), tenant, which)
	if err != nil {
		t.Fatal(err)
	}
	n, err := g.Store.Remove(t.Context(), tenant, which)
	if err != nil || n != would {
		t.Errorf("%d are removed, want %d: %v", n, would, err)
	}
	return n
}

func entriesAreDeleted(t *testing.T, open Open) {
	t.Helper()
	g := open(t, 0)
	for n := range 6 {
		k := g.Ticket("a", n, Everything)
		k.Fresh(t.Context())
		Finish(k, "an answer", policy.ModelID(fmt.Sprint("m", n%2)))
	}
	g.Answer(t, "b", 0, "of b")
	if n := g.remove(t, "a", func(e *cache.Entry) bool { return e.Key.ID() == Key(2).ID() }); n != 1 || g.Get(t, "a", 2) != "" || g.Get(t, "a", 4) == "" {
		t.Errorf("by id: %d", n)
	}
	if n := g.remove(t, "a", func(e *cache.Entry) bool { return e.By.Model == "m1" }); n != 3 || g.Get(t, "a", 1) != "" || g.Get(t, "a", 4) == "" {
		t.Errorf("by model: %d", n)
	}
	if n := g.remove(t, "a", func(*cache.Entry) bool { return true }); n != 2 || g.Get(t, "a", 4) != "" || g.list(t, "a").Count != 0 || g.list(t, "a").Bytes != 0 {
		t.Errorf("all: %d, %+v", n, g.list(t, "a"))
	}
	if n := g.remove(t, "c", func(*cache.Entry) bool { return true }); n != 0 || g.Get(t, "b", 0) != "of b" {
		t.Errorf("of another tenant: %d", n)
	}
}

func flushHoldsInFlight(t *testing.T, open Open) {
	t.Helper()
	g := open(t, 0)
	g.Answer(t, "a", 1, "before")
	late, other := g.Ticket("a", 2, Everything), g.Ticket("b", 2, Everything)
	late.Fresh(t.Context())
	other.Fresh(t.Context())
	<-time.After(2 * time.Millisecond) // the store in memory orders requests and the flush by the clock
	if epoch, n, err := g.Store.Flush(t.Context(), "a"); epoch != 2 || n != 1 || err != nil {
		t.Errorf("the flush begins epoch %d, removes %d: %v", epoch, n, err)
	}
	Finish(late, "late", "m")
	Finish(other, "of b", "m")
	g.Answer(t, "a", 3, "after")
	eventually(t, "what is stored", func() bool {
		return g.Get(t, "b", 2) == "of b" && g.Get(t, "a", 3) == "after" && g.list(t, "a").Count == 1
	})
	if a, b := g.Get(t, "a", 1), g.Get(t, "a", 2); a != "" || b != "" || g.list(t, "a").Epoch != 2 {
		t.Errorf("after the flush: %q, %q, epoch %d", a, b, g.list(t, "a").Epoch)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for late := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(late) {
			t.Fatalf("%s: not within 10 s", what)
		}
		<-time.After(time.Millisecond)
	}
}

func regimes(t *testing.T, open Open) {
	t.Helper()
	g := open(t, 0)
	in := func(n int, regime string) *cache.Ticket {
		k := g.Ticket("a", n, Everything)
		k.Market = g.Store.Enter("a", "golem", regime)
		return k
	}
	k := in(1, "calm")
	k.Fresh(t.Context())
	Finish(k, "calm", "m")
	g.Answer(t, "a", 2, "no agent's")
	if got := Text(in(1, "").Fresh(t.Context())); got != "calm" {
		t.Errorf("in the same regime: %q", got)
	}
	if got := Text(in(1, "wild").Fresh(t.Context())); got != "" {
		t.Errorf("in another regime: %q", got)
	}
	eventually(t, "the deletion", func() bool { return g.list(t, "a").Count == 1 })
	if got := g.Get(t, "a", 2); got != "no agent's" {
		t.Errorf("an answer for no agent: %q", got)
	}
}

func memoryIsBounded(t *testing.T, open Open) {
	t.Helper()
	const maxBytes = 64 << 10
	g := open(t, maxBytes)
	g.Answer(t, "small", 1, "of a small tenant")
	for n := range 40 {
		g.Answer(t, "large", n, fmt.Sprintf("%04000d", n))
	}
	eventually(t, "the bound", func() bool {
		l := g.list(t, "large")
		return l.Bytes <= maxBytes && l.Count > 4 && l.Count < 40
	})
	if got := g.Get(t, "small", 1); got != "of a small tenant" {
		t.Errorf("K-60 the small tenant lost its entry to the large one: %q", got)
	}
	if g.Get(t, "large", 0) != "" || g.Get(t, "large", 39) == "" {
		t.Error("not the least recently used entry was evicted")
	}
}

func privateEntries(t *testing.T, open Open) {
	t.Helper()
	g := open(t, 0)
	k := g.Ticket("a", 1, Everything)
	k.Private = true
	k.Fresh(t.Context())
	Finish(k, "private", "m")
	if got := g.Get(t, "a", 1); got != "private" {
		t.Errorf("it gets %q", got)
	}
	if n := g.remove(t, "a", func(*cache.Entry) bool { return true }); n != 1 || g.Get(t, "a", 1) != "" {
		t.Errorf("%d are removed", n)
	}
}

// look returns the texts of a place, sorted.
func (g *Gateway) look(t *testing.T, tenant policy.Account, p semantic.Place) (texts []string) {
	t.Helper()
	rows, _, err := g.Index.Lookup(t.Context(), tenant, p, g.Store.Now())
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		texts = append(texts, rows[i].Text)
	}
	slices.Sort(texts)
	return texts
}

// ask stores the answer to a question, and its row at a place.
func (g *Gateway) ask(t *testing.T, tenant policy.Account, n int, p semantic.Place, text string) {
	t.Helper()
	k := g.Ticket(tenant, n, Everything)
	k.Stored = func(e *cache.Entry) {
		g.Index.Add(tenant, p, &semantic.Row{Key: e.Key, Text: text, Expires: e.Expires})
	}
	k.Fresh(t.Context())
	Finish(k, "the answer to "+text, "m")
}

func questions(t *testing.T, open Open) {
	t.Helper()
	g := open(t, 0)
	here, there := semantic.Place{1}, semantic.Place{2}
	for n := range 6 {
		g.ask(t, "a", n, here, fmt.Sprint("question ", n))
	}
	g.ask(t, "a", 9, there, "another")
	g.ask(t, "b", 1, here, "of b")
	eventually(t, "the questions", func() bool { return g.list(t, "a").Count == 7 })
	if got := g.look(t, "a", here); len(got) != 4 || got[3] != "question 5" {
		t.Errorf("questions here: %q", got)
	}
	if got := g.look(t, "b", here); len(got) != 1 || got[0] != "of b" {
		t.Errorf("K-60 b's questions: %q", got)
	}
	if err := g.Index.Ban(t.Context(), "a", Key(5)); err != nil {
		t.Error(err)
	}
	g.remove(t, "a", func(e *cache.Entry) bool { return e.Key == Key(5) })
	g.ask(t, "a", 12, here, "again")
	g.list(t, "a")
	if got := g.look(t, "a", here); len(got) != 0 {
		t.Errorf("a banned place has %q", got)
	}
	if got := g.look(t, "a", there); len(got) != 1 || len(g.look(t, "b", here)) != 1 {
		t.Errorf("another place: %q", got)
	}
}

func concurrentRequests(t *testing.T, open Open) {
	t.Helper()
	g := open(t, 0)
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			tenant := policy.Account(fmt.Sprint("t", n%4))
			for i := range 20 {
				k := g.Ticket(tenant, i, Everything)
				want := fmt.Sprint(tenant, " ", i)
				if e := k.Fresh(context.Background()); e == nil {
					Finish(k, want, "m")
				} else if got := Text(e); got != want {
					t.Errorf("%q gets %q, want %q", tenant, got, want)
				}
			}
		})
	}
	all.Wait()
	for n := range 4 {
		if l := g.list(t, policy.Account(fmt.Sprint("t", n))); l.Count != 20 {
			t.Errorf("%d entries of tenant %d", l.Count, n)
		}
	}
}
