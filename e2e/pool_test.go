package e2e

import (
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/modeltest"
)

// TestC14KeysOfTheFreePlanShareAPool: and nobody else; nothing of a request that is an agent's, confidential or private, or has personal data or a user's own
// key, gets there. Without pipeline.pool they share nothing.
func TestC14KeysOfTheFreePlanShareAPool(t *testing.T) {
	t.Parallel()
	for pool, shares := range map[string]bool{"free": true, "off": false} {
		t.Run(pool, func(t *testing.T) {
			t.Parallel()
			const own = "sk-or-of-a-user"
			o, r := fake.Start(t, fake.Config{Dialect: fake.OpenAI}), fake.Start(t, fake.Config{Vendor: fake.OpenRouter, Keys: []string{own}})
			g := gateway.Run(t, gateway.Options{Config: quick + "models: {dir: " + modeltest.Dir(t) + "}\npipeline: {semantic: on, semantic_timeout: 10s, pool: " + pool + "}\n", Providers: []gateway.Provider{
				{ID: "o", Fake: o, Models: models("gpt-x", ""), More: "private: true"},
				{ID: "openrouter", Fake: r, More: "byok: true", Models: models("gpt-y", "maker/y")},
			}})
			keys := map[string]string{}
			for _, name := range []string{"ann", "bob"} {
				keys[name] = g.CreateKey(t, "--name", name, "--tier", "free").Key
			}
			keys["pro"] = g.CreateKey(t, "--name", "pro", "--tier", "pro").Key
			by := func(who string, a ask, header ...string) (string, gateway.Answer) {
				t.Helper()
				c := a.call(append(header, fast)...)
				c.Key = keys[who]
				got := g.Do(t, c)
				return known(t, a, got), got
			}
			ownership := func(about string, a ask, want bool, header ...string) {
				t.Helper()
				if k, _ := by("ann", a, header...); k == "hash" || k == "semantic" {
					t.Errorf("%s: the first one gets %q", about, k)
				}
				first, _ := by("ann", a, header...)
				k, _ := by("bob", a, header...)
				if got := k == "hash" || k == "semantic"; got != (want && shares) {
					t.Errorf("%s: another key of the plan gets %q (its asker %q)", about, k, first)
				}
				if k, _ := by("pro", a, header...); k == "hash" || k == "semantic" {
					t.Errorf("%s: another plan gets %q", about, k)
				}
			}
			exact := func(say string) ask {
				return ask{dialect: fake.OpenAI, model: "gpt-x", more: `"temperature":0`, say: say}
			}
			ownership("a question", exact("Who wrote Faust?"), true)
			ownership("a stream", ask{dialect: fake.Anthropic, model: "gpt-x", stream: true, more: `"temperature":0`, say: "Who wrote Emilia Galotti?"}, true)
			ownership("confidential", exact("What is hidden?"), false, "X-Bardo-Security-Class: confidential")
			ownership("private", exact("What is secret?"), false, "X-Bardo-Security-Class: private")
			ownership("a privacy tier", exact("What is not logged?"), false, "X-Bardo-Privacy-Tier: private")
			ownership("an agent's", exact("What is the price?"), false, "X-Bardo-Golem-Id: g7")
			ownership("a subsystem's", exact("What is the risk?"), false, "X-Bardo-Subsystem: risk")
			ownership("a user's own key", ask{dialect: fake.OpenAI, model: "gpt-y", more: `"temperature":0`, say: "Who wrote Kabale und Liebe?"}, false, "X-Bardo-Upstream-Key: "+own)
			ownership("personal data", exact("Who is ada.lovelace@analytical.org?"), false)

			question, other := plainly(ask{dialect: fake.OpenAI}, "gpt-x", "What is the speed of light?"), plainly(ask{dialect: fake.OpenAI}, "gpt-x", "What's the speed of light?")
			eventually(t, "the embedding model", func() bool {
				by("ann", question)
				k, _ := by("ann", other)
				return k == "semantic"
			})
			k, got := by("bob", other)
			if (k == "semantic") != shares {
				t.Errorf("the semantic cache gives another key %q", k)
			}
			if !shares {
				return
			}
			var l listing
			get(t, g, keys["bob"], "/v1/cache", &l)
			if l.Entries != len(l.Data) || l.Entries > 6 { // those of the requests that are its own
				t.Errorf("shared entries are listed: %+v", l)
			}
			id := got.Header.Get("X-Request-Id")
			eventually(t, "the record", func() bool {
				return g.Do(t, gateway.Call{Path: "/v1/requests/" + id, Key: keys["bob"]}).Status == http.StatusOK
			})
			if pro := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache?request=" + id, Key: keys["pro"]}); pro.Status != http.StatusNotFound {
				t.Errorf("another plan removes it: %d %s", pro.Status, pro.Body)
			}
			if gone := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache?request=" + id, Key: keys["bob"]}); gone.Status != http.StatusOK || !strings.Contains(gone.Body, `"deleted":1`) {
				t.Errorf("the wrong hit: %d %s", gone.Status, gone.Body)
			}
			if k, _ := by("ann", other); k == "semantic" {
				t.Error("the wrong hit is served again")
			}
			if k, _ := by("ann", exact("Who wrote Faust?")); k != "hash" {
				t.Errorf("the others' entries: %q", k)
			}
			if g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache", Key: keys["bob"]}).Status != http.StatusOK {
				t.Error("its own entries cannot be deleted")
			}
			if k, _ := by("ann", exact("Who wrote Faust?")); k != "hash" {
				t.Errorf("after another key emptied its cache: %q", k)
			}
		})
	}
}
