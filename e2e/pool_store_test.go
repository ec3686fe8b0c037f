package e2e

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/modeltest"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/internal/redistest"
)

// The pool of the free plan, with the stores that outlive a gateway.

const poolOn = "pipeline: {semantic: on, semantic_timeout: 10s, pool: free}\n"

// poolKeys are two keys of the free plan, and one of another.
func poolKeys(t *testing.T, g *gateway.Gateway) map[string]string {
	t.Helper()
	return map[string]string{
		"ann": g.CreateKey(t, "--name", "ann", "--tier", "free").Key,
		"bob": g.CreateKey(t, "--name", "bob", "--tier", "free").Key,
		"pro": g.CreateKey(t, "--name", "pro", "--tier", "pro").Key,
	}
}

// poolQuestion is a question that is cached exactly.
func poolQuestion(say string) ask { return forms[0].about("m", say) }

// kept are requests whose answers stay with their key, with the headers that say so.
var kept = map[string][]string{
	"A question in confidence":            {"X-Bardo-Security-Class: confidential"},
	"A question of an agent's":            {"X-Bardo-Golem-Id: g7"},
	"A question about ada@analytical.org": nil,
}

// removeHit has a key remove the answer that it got.
func removeHit(t *testing.T, g *gateway.Gateway, key, id string, want int) {
	t.Helper()
	eventually(t, "the record", func() bool {
		return g.Do(t, gateway.Call{Path: "/v1/requests/" + id, Key: key}).Status == http.StatusOK
	})
	if n := deleteCached(t, g, key, "?request="+id); n != want {
		t.Errorf("%d entries are removed", n)
	}
}

// TestC14ThePoolOnADiskOutlivesARestart: for the keys that share it alone, with nothing in it that must not be, and what was removed stays so. A gateway that does not share
// any more serves nothing of it.
func TestC14ThePoolOnADiskOutlivesARestart(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	config := quick + "models: {dir: " + modeltest.Dir(t) + "}\nstore: {cache: \"sqlite://$BARDO_HOME/cache.db\", cache_key: a-secret-key}\n"
	opt := gateway.Options{Config: config + poolOn, Home: proctest.Dir(t), Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}}
	g := gateway.Run(t, opt)
	keys := poolKeys(t, g)
	must := func(g *gateway.Gateway, who string, a ask, want string, header ...string) {
		t.Helper()
		if k := keyed(t, g, a, keys[who], header...); k != want {
			t.Errorf("%s asks %q, and gets %q, want %q", who, a.say, k, want)
		}
	}
	faust, nathan, oslo := poolQuestion("Who wrote Faust?"), poolQuestion("Who wrote Nathan?"), plainly(forms[0], "m", "What is the population of Oslo?")
	must(g, "ann", faust, "miss")
	must(g, "ann", oslo, "miss")
	must(g, "pro", nathan, "miss")
	for say, header := range kept {
		must(g, "ann", poolQuestion(say), "miss", header...)
	}
	restart := func(config string) {
		t.Helper()
		if err := g.Stop(); err != nil {
			t.Fatal(err)
		}
		opt.Config = config
		g = gateway.Run(t, opt)
	}
	restart(config + poolOn)
	for _, name := range []string{"cache.db", "cache.db-wal"} {
		b, err := os.ReadFile(filepath.Join(opt.Home, name))
		for _, shown := range []string{"Faust", "Oslo", "pool/free", "ada@"} {
			if err == nil && bytes.Contains(b, []byte(shown)) {
				t.Errorf("%s shows %q", name, shown)
			}
		}
	}
	must(g, "bob", faust, "hash")
	must(g, "pro", faust, "miss")
	must(g, "bob", nathan, "miss")
	for say, header := range kept {
		must(g, "bob", poolQuestion(say), "miss", header...)
	}
	oslos := plainly(forms[2], "m", "tell me what the population of Oslo is, please")
	shared(t, g, oslos, keys["bob"], "semantic")
	must(g, "pro", oslos, "miss", "x-bardo-cache: no-store")
	c := oslos.with(keys["bob"], fast)
	hit := g.Do(t, c)
	if known(t, oslos, hit) != "semantic" {
		t.Errorf("before it is removed, the answer is %q", hit.Header.Get("X-Bardo-Cache"))
	}
	removeHit(t, g, keys["bob"], hit.Header.Get("X-Request-Id"), 1)
	restart(config + poolOn)
	must(g, "ann", faust, "hash")
	eventually(t, "the embedding model", func() bool {
		keyed(t, g, plainly(forms[0], "m", "What is the speed of light?"), keys["ann"])
		return keyed(t, g, plainly(forms[0], "m", "What's the speed of light?"), keys["bob"]) == "semantic"
	})
	must(g, "ann", oslos, "miss", "x-bardo-cache: no-store")
	restart(config + strings.Replace(poolOn, "pool: free", "pool: off", 1))
	for _, who := range []string{"ann", "bob"} {
		must(g, who, faust, "miss")
	}
}

// TestC14ThePoolInRedisIsSharedByGateways: for the keys of the free plan alone, by both caches; what one gateway removes is gone at the other, and Redis shows nothing of it.
func TestC14ThePoolInRedisIsSharedByGateways(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	gs, _ := sharersWith(t, fake.Behaviour{Text: "It is ANSWERMARKER."}, redisStore(server, "1s"), poolOn+"models: {dir: "+modeltest.Dir(t)+"}\n")
	keys := poolKeys(t, gs[0])
	for _, key := range keys { // the other gateway learns of them
		eventually(t, "the key", func() bool {
			return gs[1].Do(t, gateway.Call{Path: "/v1/models", Key: key}).Status == http.StatusOK
		})
	}
	faust, oslo := poolQuestion("Who wrote Faust?"), plainly(forms[0], "m", "What is the population of Oslo?")
	for say, header := range kept {
		if k := keyed(t, gs[0], poolQuestion(say), keys["ann"], header...); k != "miss" {
			t.Errorf("%s: the first one gets %q", say, k)
		}
	}
	for _, a := range []ask{faust, oslo} {
		if k := keyed(t, gs[0], a, keys["ann"]); k != "miss" {
			t.Errorf("the first one gets %q", k)
		}
	}
	shared(t, gs[1], faust, keys["bob"], "hash")
	shared(t, gs[1], plainly(forms[2], "m", "tell me what the population of Oslo is, please"), keys["bob"], "semantic")
	for _, a := range []ask{faust, oslo} {
		if k := keyed(t, gs[1], a, keys["pro"], "x-bardo-cache: no-store"); k != "miss" {
			t.Errorf("K-60 another plan gets %q", k)
		}
	}
	for say, header := range kept { // they were stored before what is shared now
		if k := keyed(t, gs[1], poolQuestion(say), keys["bob"], header...); k != "miss" {
			t.Errorf("%s: another key of the plan gets %q", say, k)
		}
	}
	dump := server.Dump(t)
	for _, secret := range []string{"MARKER", "Faust", "Oslo", "pool/free", "ada@", keys["ann"]} {
		if strings.Contains(dump, secret) {
			t.Errorf("Redis holds %q", secret)
		}
	}
	hit := gs[1].Do(t, faust.with(keys["bob"], fast))
	if known(t, faust, hit) != "hash" {
		t.Errorf("before it is removed, the answer is %q", hit.Header.Get("X-Bardo-Cache"))
	}
	if pro := gs[0].Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache?request=" + hit.Header.Get("X-Request-Id"), Key: keys["pro"]}); pro.Status != http.StatusNotFound {
		t.Errorf("another plan removes it: %d %s", pro.Status, pro.Body)
	}
	removeHit(t, gs[1], keys["bob"], hit.Header.Get("X-Request-Id"), 1)
	if k := keyed(t, gs[0], faust, keys["ann"], "x-bardo-cache: no-store"); k != "miss" {
		t.Errorf("K-65 what the other gateway removed is %q", k)
	}
}
