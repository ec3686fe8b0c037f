package redis_test

import (
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/cachetest"
	"bardo.money/gateway/extproc/cache/redis"
	"bardo.money/gateway/internal/redistest"
)

// TestHitsOfRemovedEntriesAreNotCounted: counters do not outlive their entries.
func TestHitsOfRemovedEntriesAreNotCounted(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, redis.Options{URL: server.URL()}), open(t, redis.Options{URL: server.URL()})
	a.Answer(t, "k", 1, "the answer")
	hit := a.Ticket("k", 1, cachetest.Everything)
	e := hit.Fresh(t.Context())
	if e == nil {
		t.Fatal("there is no answer")
	}
	if n := a.remove(t, "k") + b.remove(t, "k"); n != 1 {
		t.Fatalf("%d entries are removed", n)
	}
	hit.Hit(e, 5)
	if l, err := a.Store.List(t.Context(), "k"); err != nil || l.Hits == 0 {
		t.Fatalf("%+v, %v", l, err)
	}
	for key := range strings.FieldsSeq(server.Dump(t)) {
		if strings.HasPrefix(key, "bardo:answers:") && strings.Contains(key, ":u:") {
			if n, _ := server.Do(t, "HLEN", key).(int64); n != 3 {
				t.Errorf("there are %d counters, want those of hits, misses and what was saved", n)
			}
			return
		}
	}
	t.Error("there are no counters")
}

// TestAReplacedAnswerCountsOnce in the bytes of all entries.
func TestAReplacedAnswerCountsOnce(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, redis.Options{URL: server.URL()}), open(t, redis.Options{URL: server.URL()})
	both := []*gateway{a, b}
	var tickets []*cache.Ticket
	for _, g := range both { // none has it when they look
		k := g.Ticket("k", 1, cachetest.Everything)
		k.Fresh(t.Context())
		k.Miss()
		tickets = append(tickets, k)
	}
	var sizes []int64
	for i, g := range both {
		cachetest.Finish(tickets[i], "the answer", "m")
		l, err := g.Store.List(t.Context(), "k")
		if err != nil || l.Count != 1 {
			t.Fatalf("%+v, %v", l, err)
		}
		sizes = append(sizes, l.Bytes)
	}
	if sizes[1] > sizes[0]*3/2 { // the times in them are not always of the same length
		t.Errorf("%d bytes after the first, %d after the second", sizes[0], sizes[1])
	}
}

// TestConnectionsThatBreakTogetherAreReplaced: after one of them failed no other one from before is used.
func TestConnectionsThatBreakTogetherAreReplaced(t *testing.T) {
	server := redistest.Start(t)
	g := open(t, redis.Options{URL: server.URL()})
	g.Answer(t, "k", 1, "the answer")
	if _, err := g.Store.List(t.Context(), "k"); err != nil { // waits for asynchronous writes
		t.Fatal(err)
	}
	for range 3 {
		server.Do(t, "CLIENT", "PAUSE", "200") // each waits on its own connection
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { g.Get(t, "k", 1) })
		}
		all.Wait()
		server.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		if got := g.Get(t, "k", 1); got != "the answer" {
			t.Fatalf("it gets %q: %s", got, g.log.String())
		}
	}
	if g.count(redis.Failed) != 0 || g.shared.Problem() != nil {
		t.Errorf("%d lookups failed: %v", g.count(redis.Failed), g.shared.Problem())
	}
}
