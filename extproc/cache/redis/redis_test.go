package redis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/cachetest"
	"bardo.money/gateway/extproc/cache/redis"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/internal/mtlstest"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/internal/redistest"
	"bardo.money/gateway/policy"
)

// patient is a time limit that a busy machine keeps.
const patient = 10 * time.Second

// gateway is one gateway's stores.
type gateway struct {
	cachetest.Gateway
	shared *redis.Store
	log    proctest.Output
	lost   atomic.Int64
	looked sync.Map // results
}

// open opens the stores of a gateway on a server.
func open(t *testing.T, o redis.Options) *gateway {
	t.Helper()
	g := &gateway{}
	o.Log = slog.New(slog.NewTextHandler(&g.log, nil))
	o.Lost = func(n int) { g.lost.Add(int64(n)) }
	o.Looked = func(r redis.Outcome) {
		n, _ := g.looked.LoadOrStore(r, &atomic.Int64{})
		n.(*atomic.Int64).Add(1) //nolint:forcetypeassert // nothing else is stored
	}
	if o.Timeout == 0 {
		o.Timeout = patient
	}
	if o.Secret == nil {
		o.Secret = []byte("secret")
	}
	var err error
	if g.shared, err = redis.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	g.Index = semantic.New(0)
	g.Index.SetShared(g.shared)
	g.shared.Start(g.Index)
	g.Store = cache.New(cache.Options{Shared: g.shared, Removed: g.Index.Remove})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.shared.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return g
}

// count is how many lookups had a result.
func (g *gateway) count(r redis.Outcome) int64 {
	n, ok := g.looked.Load(r)
	if !ok {
		return 0
	}
	return n.(*atomic.Int64).Load() //nolint:forcetypeassert // nothing else is stored
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	polltest.Until(t, what, ok)
}

func TestTheStoreDoesWhatAStoreMust(t *testing.T) {
	server := redistest.Start(t)
	cachetest.Run(t, func(t *testing.T, bytes int64) *cachetest.Gateway {
		t.Helper()
		server.Do(t, "FLUSHALL")
		return &open(t, redis.Options{URL: server.URL(), MaxBytes: bytes}).Gateway
	})
}

// TestC18GatewaysShareAnswers, with their questions, counters and lists.
func TestC18GatewaysShareAnswers(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, redis.Options{URL: server.URL()}), open(t, redis.Options{URL: server.URL()})
	place := semantic.Place{7}
	k := a.Ticket("k", 1, cachetest.Everything)
	k.Stored = func(e *cache.Entry) {
		a.Index.Add("k", place, &semantic.Row{Key: e.Key, Text: "the question", Expires: e.Expires})
	}
	k.Fresh(t.Context())
	k.Miss()
	cachetest.Finish(k, "the answer", "m")
	eventually(t, "a's answer at b", func() bool { return b.Get(t, "k", 1) == "the answer" })
	rows, _, err := b.Index.Lookup(t.Context(), "k", place, time.Now())
	if err != nil || len(rows) != 1 || rows[0].Text != "the question" || rows[0].Key != cachetest.Key(1) {
		t.Errorf("b has the questions %+v, %v", rows, err)
	}
	hit := b.Ticket("k", 1, cachetest.Everything)
	hit.Hit(hit.Fresh(t.Context()), 5)
	if b.Get(t, "other", 1) != "" {
		t.Error("K-60 another tenant gets the answer")
	}
	if _, err := b.Store.List(t.Context(), "k"); err != nil { // it writes what b has counted
		t.Fatal(err)
	}
	l, err := a.Store.List(t.Context(), "k")
	if err != nil || l.Count != 1 || l.Hits != 1 || l.Misses != 1 || l.Saved != 5 || len(l.Entries) != 1 || !l.Entries[0].Semantic || l.Entries[0].Hits() != 1 {
		t.Errorf("a lists %+v, %v", l, err)
	}
	if late := open(t, redis.Options{URL: server.URL()}); late.Get(t, "k", 1) != "the answer" { // after a restart, too
		t.Error("a gateway that starts later does not have the answer")
	}
}

// TestGatewaysKnowTheAccountsOfAllEntries, so that an operator's flush of everything leaves none: also those of wallets, which no list of keys has.
func TestGatewaysKnowTheAccountsOfAllEntries(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, redis.Options{URL: server.URL()}), open(t, redis.Options{URL: server.URL()})
	const wallets = 1200 // more than one scan returns
	var want []policy.Account
	for n := range wallets {
		name := policy.Account(fmt.Sprintf("wallet_%04d", n))
		a.Answer(t, name, 1, "an answer")
		want = append(want, name)
	}
	a.Answer(t, "wallet_0007", 2, "another")
	tenants := func(g *gateway) []policy.Account {
		t.Helper()
		got, err := g.Store.Tenants(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		return slices.Compact(got)
	}
	tenants(a) // it writes what waits
	if got := tenants(b); !slices.Equal(got, want) {
		t.Fatalf("b knows %d accounts, want %d", len(got), len(want))
	}
	for _, name := range want[1:] {
		if _, n, err := b.Store.Flush(t.Context(), name); n == 0 || err != nil {
			t.Fatalf("b flushes %d entries of %s: %v", n, name, err)
		}
	}
	if got := tenants(open(t, redis.Options{URL: server.URL()})); !slices.Equal(got, want[:1]) {
		t.Errorf("after the flush there are %v, want %v", got, want[:1])
	}
}

// TestK65WhatOneGatewayRemovesIsServedByNone: not from the memory of another, which has a copy, and not if its answer was on its way.
func TestK65WhatOneGatewayRemovesIsServedByNone(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, redis.Options{URL: server.URL()}), open(t, redis.Options{URL: server.URL()})
	share := func(n int) {
		t.Helper()
		a.Answer(t, "k", n, "wrong")
		eventually(t, "the answer at b", func() bool { return b.Get(t, "k", n) == "wrong" })
	}
	one := func(n int) func(*cache.Entry) bool {
		return func(e *cache.Entry) bool { return e.Key == cachetest.Key(n) }
	}
	for n := range 3 {
		share(n)
	}
	if n, err := b.Store.Remove(t.Context(), "k", one(1)); n != 1 || err != nil {
		t.Errorf("b removes %d: %v", n, err)
	}
	if a.Get(t, "k", 1) != "" || b.Get(t, "k", 1) != "" || a.Get(t, "k", 2) != "wrong" {
		t.Error("the entry that b removed exists, or another was removed")
	}
	late := a.Ticket("k", 5, cachetest.Everything)
	late.Fresh(t.Context())
	if epoch, n, err := b.Store.Flush(t.Context(), "k"); epoch != 2 || n != 2 || err != nil {
		t.Errorf("b flushes %d into epoch %d: %v", n, epoch, err)
	}
	cachetest.Finish(late, "late", "m")
	if _, err := a.Store.List(t.Context(), "k"); err != nil { // it writes what waits
		t.Fatal(err)
	}
	for n := range 6 {
		if a.Get(t, "k", n) != "" || b.Get(t, "k", n) != "" {
			t.Errorf("answer %d is there after the flush", n)
		}
	}
	private := a.Ticket("k", 7, cachetest.Everything)
	private.Private = true
	private.Fresh(t.Context())
	cachetest.Finish(private, "private", "m")
	if a.Get(t, "k", 7) != "private" || b.Get(t, "k", 7) != "" {
		t.Error("a private answer is not where it was made, or is elsewhere")
	}
	if _, err := b.Store.Remove(t.Context(), "k", func(*cache.Entry) bool { return true }); err != nil || a.Get(t, "k", 7) != "" {
		t.Errorf("a's private answer outlives what b removes: %v", err)
	}
}

// TestK65AWrongQuestionIsComparedByNoGateway.
func TestK65AWrongQuestionIsComparedByNoGateway(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, redis.Options{URL: server.URL()}), open(t, redis.Options{URL: server.URL()})
	place := semantic.Place{7}
	ask := func(g *gateway, n int) {
		k := g.Ticket("k", n, cachetest.Everything)
		k.Stored = func(e *cache.Entry) {
			g.Index.Add("k", place, &semantic.Row{Key: e.Key, Text: "a question", Expires: e.Expires})
		}
		k.Fresh(t.Context())
		cachetest.Finish(k, "an answer", "m")
		if _, err := g.Store.List(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	look := func(g *gateway) int {
		rows, _, err := g.Index.Lookup(t.Context(), "k", place, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	ask(a, 1)
	if look(a) != 1 || look(b) != 1 {
		t.Fatal("the question is not shared")
	}
	if err := b.Index.Ban(t.Context(), "k", cachetest.Key(1)); err != nil {
		t.Fatal(err)
	}
	ask(a, 2)
	ask(b, 3)
	if n, m := look(a), look(b); n != 0 || m != 0 {
		t.Errorf("a banned place has %d and %d questions", n, m)
	}
}

// embedder counts the texts that it makes vectors of.
type embedder struct {
	tag   string
	texts []string
}

func (e *embedder) Embed(_ context.Context, text string) ([]float32, error) {
	e.texts = append(e.texts, text)
	return []float32{0.6, -0.8, float32(len(e.tag)) * 0}, nil
}

func (*embedder) Threshold() float64 { return 0.9 }
func (e *embedder) Tag() string      { return e.tag }

// TestC18GatewaysShareVectors: what one gateway has made of a question, no other one makes again, whether it knows the question already or not; vectors of another model are not
// compared, and Redis shows nothing of them.
func TestC18GatewaysShareVectors(t *testing.T) {
	server := redistest.Start(t)
	gs := [3]*gateway{open(t, redis.Options{URL: server.URL()}), open(t, redis.Options{URL: server.URL()}), open(t, redis.Options{URL: server.URL()})}
	place := semantic.Place{7}
	k := gs[0].Ticket("k", 1, cachetest.Everything)
	k.Stored = func(e *cache.Entry) {
		gs[0].Index.Add("k", place, &semantic.Row{Key: e.Key, Text: "what is stored", Expires: e.Expires})
	}
	k.Fresh(t.Context())
	cachetest.Finish(k, "an answer", "m")
	settled := func(g *gateway) {
		t.Helper()
		if _, err := g.Store.List(t.Context(), "k"); err != nil { // waits for asynchronous writes
			t.Fatal(err)
		}
	}
	rank := func(g *gateway, e *embedder) []semantic.Match {
		t.Helper()
		rows, _, err := g.Index.Lookup(t.Context(), "k", place, time.Now())
		if err != nil || len(rows) != 1 {
			t.Fatal(len(rows), err)
		}
		found, err := g.Index.Rank(t.Context(), e, &semantic.Question{Tenant: "k", Text: "what is asked"}, rows)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	settled(gs[0])
	if _, _, err := gs[1].Index.Lookup(t.Context(), "k", place, time.Now()); err != nil { // it knows the question before its vector
		t.Fatal(err)
	}
	first := &embedder{tag: "one"}
	rank(gs[0], first)
	settled(gs[0])
	if len(first.texts) != 2 {
		t.Errorf("the first gateway makes vectors of %q", first.texts)
	}
	for i, g := range gs[1:] {
		e := &embedder{tag: "one"}
		if found := rank(g, e); len(e.texts) != 1 || len(found) != 1 || found[0].Similarity < 0.99 || found[0].Tag != "one" {
			t.Errorf("gateway %d makes vectors of %q, and finds %+v", i+1, e.texts, found)
		}
	}
	other := &embedder{tag: "another"}
	if rank(gs[2], other); len(other.texts) != 2 {
		t.Errorf("with another model vectors are made of %q", other.texts)
	}
	for _, secret := range []string{"stored", "asked", `"one"`, "Vector"} {
		if strings.Contains(server.Dump(t), secret) {
			t.Errorf("Redis holds %q", secret)
		}
	}
	if n := gs[0].remove(t, "k"); n != 1 {
		t.Errorf("%d entries are removed", n)
	}
	gs[1].Index.Embedded("k", cachetest.Key(1), []float32{1}, "one") // of a question that was removed
	settled(gs[1])
	if rows, _, err := open(t, redis.Options{URL: server.URL()}).Index.Lookup(t.Context(), "k", place, time.Now()); err != nil || len(rows) != 0 {
		t.Errorf("what was removed is there again: %d, %v", len(rows), err)
	}
}

// remove deletes all entries of a tenant.
func (g *gateway) remove(t *testing.T, tenant policy.Account) int {
	t.Helper()
	n, err := g.Store.Remove(t.Context(), tenant, func(*cache.Entry) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAnAgentsRegimeHoldsForAllGateways: answers of an agent from another regime are deleted for all.
func TestAnAgentsRegimeHoldsForAllGateways(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, redis.Options{URL: server.URL()}), open(t, redis.Options{URL: server.URL()})
	k := a.Ticket("k", 1, cachetest.Everything)
	k.Market = a.Store.Enter("k", "golem", "calm")
	k.Fresh(t.Context())
	cachetest.Finish(k, "calm", "m")
	eventually(t, "the answer at b", func() bool { return b.Get(t, "k", 1) == "calm" })
	b.Store.Enter("k", "golem", "wild")
	eventually(t, "the deletion at a", func() bool { return a.Get(t, "k", 1) == "" })
}

// TestC14RedisHoldsNothingInClear: neither keys nor values reveal content or account, and private entries are not stored.
func TestC14RedisHoldsNothingInClear(t *testing.T) {
	server := redistest.Start(t)
	g := open(t, redis.Options{URL: server.URL()})
	k := g.Ticket("ACCOUNTMARKER", 1, cachetest.Everything)
	k.Market = g.Store.Enter("ACCOUNTMARKER", "AGENTMARKER", "REGIMEMARKER")
	k.Stored = func(e *cache.Entry) {
		g.Index.Add("ACCOUNTMARKER", semantic.Place{7}, &semantic.Row{Key: e.Key, Text: "QUESTIONMARKER", Expires: e.Expires})
	}
	k.Fresh(t.Context())
	cachetest.Finish(k, "ANSWERMARKER", "MODELMARKER")
	private := g.Ticket("ACCOUNTMARKER", 2, cachetest.Everything)
	private.Private = true
	private.Fresh(t.Context())
	cachetest.Finish(private, "PRIVATEMARKER", "m")
	g.shared.SetServed([16]byte{1}, []byte("PROVIDERMARKER"), time.Hour)
	l, err := g.Store.List(t.Context(), "ACCOUNTMARKER")
	if err != nil || l.Count != 1 {
		t.Fatalf("%d entries, %v", l.Count, err)
	}
	dump := server.Dump(t)
	if strings.Count(dump, "bardo:answers:") < 6 {
		t.Fatalf("the dump has too little: %q", dump)
	}
	id := cachetest.Key(1)
	for _, secret := range []string{"MARKER", id.ID(), string(id[:8]), "secret"} {
		if strings.Contains(dump, secret) {
			t.Errorf("Redis holds %q", secret)
		}
	}
	for key := range strings.FieldsSeq(dump) {
		if !strings.HasPrefix(key, "bardo:answers:") || !strings.Contains(key, ":b:") {
			continue
		}
		if ttl, ok := server.Do(t, "TTL", key).(int64); !ok || ttl < 86400 || ttl > 86400+3600 {
			t.Errorf("the entry lives for another %d s", ttl)
		}
	}
}

// TestAnotherSecretSeesNothing, and what was changed in Redis is not served.
func TestAnotherSecretSeesNothing(t *testing.T) {
	server := redistest.Start(t)
	g := open(t, redis.Options{URL: server.URL()})
	g.Answer(t, "k", 1, "the answer")
	if _, err := g.Store.List(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	other := open(t, redis.Options{URL: server.URL(), Secret: []byte("another")})
	l, err := other.Store.List(t.Context(), "k")
	if other.Get(t, "k", 1) != "" || err != nil || l.Count != 0 {
		t.Errorf("another secret lists %d, %v", l.Count, err)
	}
	for key := range strings.FieldsSeq(server.Dump(t)) {
		if strings.Contains(key, ":b:") {
			server.Do(t, "SETRANGE", key, 40, "changed")
			server.Do(t, "SETRANGE", key, 0, "another tag.....")
		}
	}
	if got := open(t, redis.Options{URL: server.URL()}).Get(t, "k", 1); got != "" {
		t.Errorf("a changed entry is served: %q", got)
	}
	if g.lost.Load()+other.lost.Load() != 0 {
		t.Error("entries were lost")
	}
}

// TestEntriesWithoutAnIndexAreNotServed: entries that cannot be listed and deleted are not found.
func TestEntriesWithoutAnIndexAreNotServed(t *testing.T) {
	server := redistest.Start(t)
	g := open(t, redis.Options{URL: server.URL()})
	g.Answer(t, "k", 1, "the answer")
	if _, err := g.Store.List(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	for key := range strings.FieldsSeq(server.Dump(t)) {
		if strings.HasPrefix(key, "bardo:answers:") && strings.Contains(key, ":i:") {
			server.Do(t, "DEL", key)
		}
	}
	if got := g.Get(t, "k", 1); got != "" {
		t.Errorf("it is served: %q", got)
	}
}

// TestManyTenantsShareOneBound: the entries of all tenants and gateways together stay within the bytes, and the counters agree with what there is.
func TestManyTenantsShareOneBound(t *testing.T) {
	server := redistest.Start(t)
	const most = 256 << 10
	a, b := open(t, redis.Options{URL: server.URL(), MaxBytes: most}), open(t, redis.Options{URL: server.URL(), MaxBytes: most})
	for n := range 300 {
		g := []*gateway{a, b}[n%2]
		g.Answer(t, "large", n, strings.Repeat("x", 500+10*n))
		g.Answer(t, "small", n, "an answer")
	}
	for _, g := range []*gateway{a, b} { // it writes what waits
		if _, err := g.Store.List(t.Context(), "large"); err != nil {
			t.Fatal(err)
		}
	}
	var sum, count int64
	for _, tenant := range []policy.Account{"large", "small"} {
		l, err := a.Store.List(t.Context(), tenant)
		if err != nil || l.Count < 10 {
			t.Errorf("%q has %d entries: %v", tenant, l.Count, err)
		}
		sum, count = sum+l.Bytes, count+int64(l.Count)
	}
	if sum > most || sum < most/2 {
		t.Errorf("there are %d bytes, want at most %d", sum, most)
	}
	stored, ok := server.Do(t, "KEYS", "*:b:*").([]any)
	if !ok || int64(len(stored)) != count {
		t.Errorf("Redis has %d entries, the lists have %d", len(stored), count)
	}
	for key := range strings.FieldsSeq(server.Dump(t)) {
		if !strings.HasSuffix(key, ":total") {
			continue
		}
		if total := fmt.Sprintf("%s", server.Do(t, "GET", key)); total != strconv.FormatInt(sum, 10) {
			t.Errorf("the counter says %s, the lists have %d", total, sum)
		}
	}
}

// TestEntriesThatRedisDeletesAreForgotten: entries whose time is over leave the index and its counters.
func TestEntriesThatRedisDeletesAreForgotten(t *testing.T) {
	server := redistest.Start(t)
	g := open(t, redis.Options{URL: server.URL()})
	g.Answer(t, "k", 1, "the answer")
	if l, err := g.Store.List(t.Context(), "k"); err != nil || l.Count != 1 {
		t.Fatalf("%d entries, %v", l.Count, err)
	}
	for key := range strings.FieldsSeq(server.Dump(t)) {
		if strings.HasPrefix(key, "bardo:answers:") && strings.Contains(key, ":b:") {
			server.Do(t, "PEXPIRE", key, 1)
		}
	}
	eventually(t, "the end of its time", func() bool { return g.Get(t, "k", 1) == "" })
	if l, err := g.Store.List(t.Context(), "k"); err != nil || l.Count != 0 || l.Bytes != 0 {
		t.Errorf("the listing has %d entries, %d bytes: %v", l.Count, l.Bytes, err)
	}
	if g.Answer(t, "k", 1, "another"); g.Get(t, "k", 1) != "another" {
		t.Error("another answer is not found")
	}
}

// TestConversationsAreShared, and forgotten after their time.
func TestConversationsAreShared(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, redis.Options{URL: server.URL()}), open(t, redis.Options{URL: server.URL()})
	a.shared.SetServed([16]byte{1}, []byte("one"), time.Hour)
	a.shared.SetServed([16]byte{2}, []byte("two"), 50*time.Millisecond)
	find := func() string {
		found, err := b.shared.Served(t.Context(), [][16]byte{{3}, {1}, {2}})
		if err != nil || len(found) != 3 {
			t.Fatalf("%q, %v", found, err)
		}
		return fmt.Sprintf("%q", found)
	}
	eventually(t, "what a wrote", func() bool { return strings.Contains(find(), "one") })
	eventually(t, "the end of its time", func() bool { return find() == `["" "one" ""]` })
	if !bytes.Equal(a.shared.Secret(), b.shared.Secret()) {
		t.Error("the gateways have two secrets")
	}
}

// TestRedisThatIsAwayIsAMissAndNoWait: a lookup takes no longer than its limit, further ones take no time; when Redis is back, it is used again.
func TestRedisThatIsAwayIsAMissAndNoWait(t *testing.T) {
	server := redistest.Start(t)
	const limit = 50 * time.Millisecond
	g := open(t, redis.Options{URL: server.URL(), Timeout: limit})
	lookup := func() (string, time.Duration) {
		k := g.Ticket("k", 1, cachetest.Everything)
		began := time.Now()
		got := cachetest.Text(k.Fresh(t.Context()))
		took := time.Since(began)
		if got == "" {
			cachetest.Finish(k, "the answer", "m")
		}
		return got, took
	}
	eventually(t, "the answer", func() bool { got, _ := lookup(); return got != "" })
	server.Hang()
	total, slow := time.Duration(0), 0
	for range 200 {
		got, took := lookup()
		if got != "" {
			t.Fatal("K-65 an answer is served that may be removed")
		}
		total += took
		if took > limit/2 {
			slow++
		}
	}
	if slow > 10 || g.shared.Problem() == nil || g.count(redis.Bypassed) < 100 || g.count(redis.Failed) < 3 {
		t.Errorf("%d of 200 lookups waited, %v in all; problem %v, %d skipped, %d failed", slow, total, g.shared.Problem(), g.count(redis.Bypassed), g.count(redis.Failed))
	}
	server.Resume()
	eventually(t, "Redis again", func() bool { got, _ := lookup(); return got == "the answer" && g.shared.Problem() == nil })
	server.Kill()
	for range 50 {
		if got, took := lookup(); got != "" || took > time.Second {
			t.Fatalf("of a killed Redis: %q, after %v", got, took)
		}
	}
	if _, err := g.Store.List(t.Context(), "k"); err == nil {
		t.Error("a listing has no error")
	}
	if n, err := g.Store.Remove(t.Context(), "k", func(*cache.Entry) bool { return true }); err == nil || n != 0 {
		t.Errorf("a deletion has removed %d, without an error", n)
	}
	server.Run(t)
	eventually(t, "Redis again, empty", func() bool { got, _ := lookup(); return got == "the answer" && g.shared.Problem() == nil })
	log := g.log.String()
	if n := strings.Count(log, "is away"); n < 2 || n > 20 || strings.Count(log, "is back") != n {
		t.Errorf("the log says:\n%s", log)
	}
}

// TestRedisThatIsReachableLater: a gateway starts without it, and uses it when it is there.
func TestRedisThatIsReachableLater(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	g := open(t, redis.Options{URL: server.URL()})
	if g.shared.Problem() == nil {
		t.Error("Redis is reported as reachable")
	}
	server.Run(t)
	eventually(t, "Redis", func() bool { return g.shared.Problem() == nil })
	if g.Answer(t, "k", 1, "the answer"); g.Get(t, "k", 1) != "the answer" {
		t.Error("there is no answer")
	}
}

// TestAConnectionThatBreaksIsReplaced: Redis, or a proxy before it, closes idle connections. No lookup fails.
func TestAConnectionThatBreaksIsReplaced(t *testing.T) {
	server := redistest.Start(t)
	g := open(t, redis.Options{URL: server.URL()})
	g.Answer(t, "k", 1, "the answer")
	if _, err := g.Store.List(t.Context(), "k"); err != nil { // waits for asynchronous writes
		t.Fatal(err)
	}
	for range 20 {
		server.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		if got := g.Get(t, "k", 1); got != "the answer" {
			t.Fatalf("it gets %q: %s", got, g.log.String())
		}
	}
	if g.count(redis.Failed) != 0 || g.shared.Problem() != nil {
		t.Errorf("%d lookups failed: %v", g.count(redis.Failed), g.shared.Problem())
	}
}

// TestPasswordsAndDatabases: the URL's are used; with a wrong one, the store is unreachable.
func TestPasswordsAndDatabases(t *testing.T) {
	server := redistest.Start(t, "--user", "gw", "on", ">pass%1", "~*", "+@all")
	at := func(user *url.Userinfo) *url.URL { u := server.URL(); u.User = user; return u }
	if g := open(t, redis.Options{URL: at(url.UserPassword("gw", "wrong"))}); g.shared.Problem() == nil || !strings.Contains(g.log.String(), "WRONGPASS") || strings.Contains(g.log.String(), "wrong") {
		t.Errorf("a wrong password: %v\n%s", g.shared.Problem(), g.log.String())
	}
	g := open(t, redis.Options{URL: at(url.UserPassword("gw", "pass%1"))})
	if g.Answer(t, "k", 1, "the answer"); g.Get(t, "k", 1) != "the answer" {
		t.Errorf("with a password: %v", g.shared.Problem())
	}
	tcp := forward(t, server, nil)
	in := func(db string) *gateway {
		return open(t, redis.Options{URL: &url.URL{Scheme: "redis", Host: tcp, Path: db, User: url.UserPassword("gw", "pass%1")}})
	}
	two, again, three := in("/2"), in("/2"), in("/3")
	two.Answer(t, "k", 2, "in database 2")
	if _, err := two.Store.List(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if again.Get(t, "k", 2) != "in database 2" || three.Get(t, "k", 2) != "" || g.Get(t, "k", 2) != "" {
		t.Error("databases are mixed")
	}
}

// forward lets a server be reached over TCP, encrypted if there is a configuration.
func forward(t *testing.T, to *redistest.Server, own *tls.Config) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if own != nil {
		l = tls.NewListener(l, own)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { pipe(c, to.Socket()) })
		}
	})
	return address
}

// pipe connects a connection with a socket until one of them ends.
func pipe(c net.Conn, socket string) {
	defer func() { _ = c.Close() }()
	var d net.Dialer
	s, err := d.DialContext(context.Background(), "unix", socket)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(c, s); _ = c.Close() })
	_, _ = io.Copy(s, c)
	_ = s.Close()
	back.Wait()
}

// TestEncryptedConnections: rediss:// checks the certificate.
func TestEncryptedConnections(t *testing.T) {
	server := redistest.Start(t)
	ca, err := mtlstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	files, err := ca.Write(t.TempDir(), "redis.internal", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	at := &url.URL{Scheme: "rediss", Host: forward(t, server, &tls.Config{Certificates: []tls.Certificate{cert}})}
	g := open(t, redis.Options{URL: at, TLS: &tls.Config{RootCAs: roots, ServerName: "redis.internal"}})
	if g.Answer(t, "k", 1, "the answer"); g.Get(t, "k", 1) != "the answer" {
		t.Errorf("over TLS: %v", g.shared.Problem())
	}
	if g := open(t, redis.Options{URL: at}); g.shared.Problem() == nil || !isCertificateError(g.shared.Problem()) {
		t.Errorf("a certificate of an unknown authority is accepted: %v", g.shared.Problem())
	}
}

func isCertificateError(err error) bool {
	_, ok := errors.AsType[x509.UnknownAuthorityError](err)
	return ok
}
