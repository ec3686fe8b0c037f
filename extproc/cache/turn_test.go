package cache_test

import (
	"fmt"
	"testing"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// TestK61APartitionDoesNotContainTheText: requests that differ in their last text have one partition, whatever the dialect; and all else is in it.
func TestK61APartitionDoesNotContainTheText(t *testing.T) {
	openAI := func(more, say string) *chat.Request {
		return mustDecode(t, chat.OpenAI, fmt.Sprintf(`{"model":"m","max_tokens":9,%s"messages":[{"role":"system","content":"s"},{"role":"user","content":%q}]}`, more, say))
	}
	anthropic := mustDecode(t, chat.Anthropic, `{"model":"m","max_tokens":9,"system":"s","stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"third"}]}]}`)
	one, ok := cache.TurnOf("a", openAI("", "first"))
	if !ok || one.Text != "first" {
		t.Fatalf("%+v, %v", one, ok)
	}
	for text, r := range map[string]*chat.Request{"second": openAI("", "second"), "third": anthropic} {
		if other, ok := cache.TurnOf("a", r); !ok || other.Text != text || other.Partition != one.Partition {
			t.Errorf("%s: %+v, %v", text, other, ok)
		}
	}
	if one.Partition == cache.KeyOf("a", openAI("", "first")) {
		t.Error("a partition is a key")
	}
	if other, _ := cache.TurnOf("b", openAI("", "first")); other.Partition == one.Partition {
		t.Error("two tenants share a partition")
	}
	for _, more := range []string{`"temperature":0.1,`, `"user":"u",`, `"seed":7,`} {
		if other, ok := cache.TurnOf("a", openAI(more, "first")); !ok || other.Partition == one.Partition {
			t.Errorf("%s does not matter, or is not read: %v", more, ok)
		}
	}
	if _, ok := cache.TurnOf("a", openAI(`"logprobs":true,`, "first")); ok {
		t.Error("a request with a native member has a partition")
	}
}

// mustDecode is a request that is valid.
func mustDecode(t testing.TB, d chat.Dialect, body string) *chat.Request {
	t.Helper()
	r, err := decode(d, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestC06AChangeOfRegimeRemovesAnAgentsAnswers, and late answers from the previous regime are not stored.
func TestC06AChangeOfRegimeRemovesAnAgentsAnswers(t *testing.T) {
	var deleted int
	s := cache.New(cache.Options{Removed: func(policy.Account, cache.Key) { deleted++ }})
	put := func(n int, m cache.Market) {
		q := newTicket(s, "a", n, unlimited)
		q.Market = m
		finishWith(q, "x")
	}
	left := func() int { return len(listed(t, s, "a").Entries) }
	if m := s.Enter("a", "", "calm"); m != (cache.Market{}) {
		t.Errorf("a request of no agent is in %v", m)
	}
	unknown := s.Enter("a", "golem", "")
	calm := s.Enter("a", "golem", "calm")
	put(1, calm)
	put(2, unknown) // its request was in flight when the regime became known
	put(3, cache.Market{})
	put(4, s.Enter("a", "other", "calm"))
	if got := s.Enter("a", "golem", ""); got != calm || left() != 3 || deleted != 0 {
		t.Errorf("a request without a regime is in %v; %d entries, %d removed", got, left(), deleted)
	}
	wild := s.Enter("a", "golem", "wild")
	put(5, calm)
	if left() != 2 || deleted != 1 {
		t.Errorf("%d entries, %d removed", left(), deleted)
	}
	for m, want := range map[cache.Market]bool{wild: false, calm: true, {}: true} {
		q := newTicket(s, "a", 4, unlimited)
		q.Market = m
		if got := q.Fresh(t.Context()) != nil; got != want {
			t.Errorf("in %v an answer from a calm market is served: %v", m, got)
		}
	}
	if again := s.Enter("a", "golem", "calm"); again != calm || left() != 2 || s.Enter("b", "golem", "") != (cache.Market{Agent: "golem"}) {
		t.Errorf("an answer is restored with its regime, or tenants share regimes: %d entries", left())
	}
}

// TestAFlushIsANewEpoch: stored entries are deleted, and answers to earlier requests are not stored.
func TestAFlushIsANewEpoch(t *testing.T) {
	s, c := newStore(0)
	late := newTicket(s, "a", 1, unlimited)
	for n := range 3 {
		finishWith(newTicket(s, "a", 2+n, unlimited), "x")
	}
	finishWith(newTicket(s, "b", 9, unlimited), "x")
	c.pass(time.Second)
	if n, err := s.Matching(t.Context(), "a", func(e *cache.Entry) bool { return e.Key != key(3) }); n != 2 || err != nil || listed(t, s, "a").Epoch != 1 || listed(t, s, "nobody").Epoch != 1 {
		t.Errorf("%d entries are counted in epoch %d", n, listed(t, s, "a").Epoch)
	}
	epoch, removed, err := s.Flush(t.Context(), "a")
	finishWith(late, "x")
	if l := listed(t, s, "a"); epoch != 2 || removed != 3 || err != nil || l.Epoch != 2 || len(l.Entries) != 0 || len(listed(t, s, "b").Entries) != 1 {
		t.Errorf("epoch %d, %d removed, %d left", epoch, removed, len(l.Entries))
	}
	if n, bytes := s.Size(); n != 1 || bytes != listed(t, s, "b").Bytes {
		t.Errorf("the store counts %d entries of %d bytes", n, bytes)
	}
	if finishWith(newTicket(s, "a", 1, unlimited), "x"); len(listed(t, s, "a").Entries) != 1 {
		t.Error("nothing is stored after a flush")
	}
}

// TestAnUncoalescedTicketDoesNotWait, and its Stored is called with what was stored.
func TestAnUncoalescedTicketDoesNotWait(t *testing.T) {
	s, _ := newStore(0)
	joinAll(t, s, 1)
	var stored *cache.Entry
	q := newTicket(s, "a", 1, unlimited)
	q.Uncoalesced, q.Stored = true, func(e *cache.Entry) { stored = e }
	if e, waits := q.Join(); e != nil || waits {
		t.Errorf("it gets %v, waits: %v", e, waits)
	}
	if finishWith(q, "x"); textOf(stored) != "x" || q.FreshAt(t.Context(), key(1)) != stored || q.FreshAt(t.Context(), key(2)) != nil {
		t.Errorf("stored is %q", textOf(stored))
	}
	stored = nil
	refused := newTicket(s, "a", 2, unlimited)
	refused.Stored = func(e *cache.Entry) { stored = e }
	record(refused, chat.Event{Kind: chat.Refusal, Text: []byte("no")})
	if refused.Finish(cache.Served{}); stored != nil {
		t.Error("Stored is called with a refusal")
	}
}
