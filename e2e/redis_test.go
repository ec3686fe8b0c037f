package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/modeltest"
	"bardo.money/gateway/internal/redistest"
)

// redisStore is the store's configuration for a Redis, whose lookups may take as long as a busy machine needs.
func redisStore(server *redistest.Server, timeout string) string {
	return fmt.Sprintf(`, cache: "redis+unix://%s", cache_key: a-secret-key, cache_timeout: %s`, server.Socket(), timeout)
}

// keyed asks with a key.
func keyed(t *testing.T, g *gateway.Gateway, a ask, key string, header ...string) string {
	t.Helper()
	c := a.call(append([]string{fast}, header...)...)
	c.Key = key
	return known(t, a, g.Do(t, c))
}

// shared waits until a gateway has the answer of another one.
func shared(t *testing.T, g *gateway.Gateway, a ask, key, want string) (missed int) {
	t.Helper()
	eventually(t, "the other gateway's answer", func() bool {
		if keyed(t, g, a, key, "x-bardo-cache: no-store") == want {
			return true
		}
		missed++
		return false
	})
	return missed
}

// deleteCached deletes entries of a key, and returns how many there were.
func deleteCached(t *testing.T, g *gateway.Gateway, key, what string) (n int) {
	t.Helper()
	got := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache" + what, Key: key})
	var out struct{ Deleted int }
	if got.Status != http.StatusOK {
		t.Fatalf("DELETE %s: %d %s", what, got.Status, got.Body)
	}
	got.JSON(t, &out)
	return out.Deleted
}

// TestC18TwoGatewaysShareAnswers: in every form, by both caches, each key its own; what is deleted at one is gone at the other, and Redis shows nothing of it.
func TestC18TwoGatewaysShareAnswers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	gs, p := sharersWith(t, fake.Behaviour{Text: "It is ANSWERMARKER."}, redisStore(server, "1s"), semanticOn+"models: {dir: "+modeltest.Dir(t)+"}\n")
	one, two := gs[0].Key, gs[1].Key
	for i, a := range forms[:2] {
		a := a.about("m", "QUESTIONMARKER "+a.form())
		p.Forget()
		if k := keyed(t, gs[i], a, one); k != "miss" {
			t.Errorf("%s: the first gateway says %q", a.form(), k)
		}
		missed := 0
		for _, again := range forms {
			missed += shared(t, gs[1-i], again.about("m", a.say), one, "hash")
		}
		if k := keyed(t, gs[1-i], a, two); k != "miss" {
			t.Errorf("K-60 %s: another key gets %q", a.form(), k)
		}
		if n := len(p.Generations()) - missed; n != 2 {
			t.Errorf("%s: the provider was asked %d times, want once for each key", a.form(), n)
		}
	}
	question := plainly(forms[0], "m", "What is the population of Oslo?")
	if k := keyed(t, gs[0], question, one); k != "miss" {
		t.Errorf("the first gateway says %q", k)
	}
	shared(t, gs[1], plainly(forms[2], "m", "tell me what the population of Oslo is, please"), one, "semantic")

	var l listing
	get(t, gs[1], one, "/v1/cache", &l)
	if l.Entries != 3 || l.Hits < 8 || len(l.Data) != 3 || l.Data[0].Model != "m" || l.Data[0].Hits == 0 || l.Bytes < 1000 {
		t.Errorf("the second gateway lists %+v", l)
	}
	dump := server.Dump(t)
	if !strings.Contains(dump, "bardo:answers:") {
		t.Fatalf("Redis has nothing: %q", dump)
	}
	for _, secret := range []string{"MARKER", "Oslo", "population", one, two, "a-secret-key", l.Data[0].ID, `"m"`} {
		if strings.Contains(dump, secret) {
			t.Errorf("C-14 Redis holds %q", secret)
		}
	}

	if n := deleteCached(t, gs[1], one, "?dry_run=true"); n != 3 {
		t.Errorf("%d would be deleted", n)
	}
	first, second := forms[0].about("m", "QUESTIONMARKER "+forms[0].form()), forms[1].about("m", "QUESTIONMARKER "+forms[1].form())
	c := first.call(fast)
	c.Key = one
	hit := gs[0].Do(t, c)
	if known(t, first, hit) != "hash" {
		t.Errorf("before it is deleted, the answer is %q", hit.Header.Get("X-Bardo-Cache"))
	}
	if n := deleteCached(t, gs[1], one, "?request="+hit.Header.Get("X-Request-Id")); n != 1 {
		t.Errorf("K-65 %d entries of the request are deleted", n)
	}
	if k := keyed(t, gs[0], first, one, "x-bardo-cache: no-store"); k != "miss" {
		t.Errorf("K-65 what the other gateway deleted is %q", k)
	}
	if k := keyed(t, gs[0], second, one); k != "hash" {
		t.Errorf("what was not deleted is %q", k)
	}
	if n := deleteCached(t, gs[0], one, "?epoch=new"); n != 2 {
		t.Errorf("%d entries are flushed", n)
	}
	if k := keyed(t, gs[1], second, one, "x-bardo-cache: no-store"); k != "miss" {
		t.Errorf("K-65 what the other gateway flushed is %q", k)
	}
	get(t, gs[1], one, "/v1/cache", &l)
	if l.Entries != 0 {
		t.Errorf("after the flush there are %d entries", l.Entries)
	}
	if k := keyed(t, gs[0], first.about("m", "QUESTIONMARKER "+first.form()), two); k != "hash" {
		t.Errorf("the other key's answer is %q", k)
	}
}

// TestC18RedisMayGoAndComeBack: in the middle of requests Redis hangs, dies and comes back, and every request is answered.
func TestC18RedisMayGoAndComeBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	g, _, _, _ := cachedBy(t, quick+"store: {"+strings.TrimPrefix(redisStore(server, "100ms"), ", ")+"}\n")
	stop := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	count := map[string]int{}
	for i := range 4 {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				a := forms[i].about("gpt-x", fmt.Sprint("question ", n%5))
				got := g.Do(t, a.call(fast))
				k := known(t, a, got)
				mu.Lock()
				count[k]++
				mu.Unlock()
			}
		})
	}
	counted := func(k string) int {
		mu.Lock()
		defer mu.Unlock()
		return count[k]
	}
	more := func(what, k string, by int) {
		t.Helper()
		had := counted(k)
		eventually(t, what, func() bool { return counted(k) >= had+by })
	}
	up := func(want float64) func() bool {
		return func() bool { return g.Metrics(t).Sum("bardo_shared_cache_up") == want }
	}
	more("hits", "hash", 20)
	server.Hang()
	eventually(t, "the metric", up(0))
	more("misses while Redis hangs", "miss", 20)
	server.Resume()
	eventually(t, "the metric", up(1))
	more("hits again", "hash", 20)
	server.Kill()
	eventually(t, "the metric", up(0))
	more("misses without Redis", "miss", 20)
	ready, body := bodyOf(t, g.Admin+"/readyz?verbose")
	if ready != http.StatusOK || !strings.Contains(body, `{"name":"shared cache","ok":false,"detail":"it does not answer`) {
		t.Errorf("/readyz says %d %s", ready, body)
	}
	if got := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache"}); got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "gateway_unavailable") {
		t.Errorf("what cannot be deleted: %d %s", got.Status, got.Body)
	}
	server.Run(t)
	eventually(t, "the metric", up(1))
	more("hits of a new Redis", "hash", 20)
	close(stop)
	all.Wait()
	if _, body := bodyOf(t, g.Admin+"/readyz?verbose"); !strings.Contains(body, `{"name":"shared cache","ok":true}`) {
		t.Errorf("/readyz says %s", body)
	}
	m := g.Metrics(t)
	for _, result := range []string{"found", "absent", "failed", "skipped"} {
		if m.Sum("bardo_shared_cache_lookups_total", `result="`+result+`"`) == 0 {
			t.Errorf("no lookup is counted as %s", result)
		}
	}
}

// TestR12GatewaysThatShareARedisShareAffinity: a conversation goes to the provider whose prompt cache is warm, whichever gateway it comes to.
func TestR12GatewaysThatShareARedisShareAffinity(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	first, second := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
	gs := sharersOf(t, redisStore(server, "1s"), "", gateway.Provider{ID: "first", Fake: first, Models: models("m", "")}, gateway.Provider{ID: "second", Fake: second, Models: models("m", "")})
	c, other := talk{"m", lengthy("a matter of CONVERSATIONMARKER"), false}, talk{"m", lengthy("another matter"), true}
	c.begins(t, gs[0], first)
	for n := 2; n <= 5; n++ {
		eventually(t, "the provider that the other gateway knows", func() bool { return c.by(t, gs[n%2], n, gs[0].Key) == "second" })
	}
	for _, g := range gs {
		if by := other.by(t, g, 1, gs[0].Key); by != "first" {
			t.Errorf("another conversation goes to %s", by)
		}
	}
	if by := c.by(t, gs[1], 6, gs[1].Key); by != "first" {
		t.Errorf("K-91 the same conversation of another key goes to %s", by)
	}
	if dump := server.Dump(t); !strings.Contains(dump, ":a:") || strings.Contains(dump, "second") || strings.Contains(dump, "MARKER") {
		t.Error("Redis does not have the conversation, or shows it")
	}
}
