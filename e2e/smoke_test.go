package e2e

import (
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestSmokeWithNothingConfigured: no file, no provider, no key: the demo provider answers.
func TestSmokeWithNothingConfigured(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{NoKey: true})
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		for _, stream := range []bool{false, true} {
			a := ask{dialect: d, model: "demo", stream: stream, say: "is anyone there?"}
			got := g.Do(t, a.call())
			if got.Status != http.StatusOK {
				t.Fatalf("%s stream=%v: %d %s", d, stream, got.Status, got.Body)
			}
			s := text(t, a, got)
			if !strings.Contains(s, "demo provider") || !strings.Contains(s, "is anyone there?") || !strings.Contains(s, "1 message ") {
				t.Errorf("%s stream=%v: %q", d, stream, s)
			}
			if got.Header.Get("X-Bardo-Provider") != "demo" || got.Header.Get("X-Request-Id") == "" {
				t.Errorf("%s stream=%v: headers %v", d, stream, got.Header)
			}
		}
	}
	over := ask{dialect: fake.OpenAI, model: "demo"}.call()
	over.TLS = true
	if got := g.Do(t, over); got.Status != http.StatusOK {
		t.Errorf("over TLS: %d %s", got.Status, got.Body)
	}
}

// TestSmokeWithRealProviders: a key is needed, the answer is the provider's, and what it cost is recorded.
func TestSmokeWithRealProviders(t *testing.T) {
	t.Parallel()
	o := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Models: []string{"gpt-4o-mini"}})
	n := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Models: []string{"claude-sonnet-4-5"}})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "own-openai", Fake: o, Models: models("gpt-4o-mini", "")},
		{ID: "own-anthropic", Fake: n, Format: "anthropic", Models: models("claude-sonnet-4-5", "")},
	}})
	for _, client := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		for _, model := range []string{"gpt-4o-mini", "claude-sonnet-4-5"} {
			for _, stream := range []bool{false, true} {
				a := ask{dialect: client, model: model, stream: stream}
				got := g.Do(t, a.call())
				if got.Status != http.StatusOK {
					t.Fatalf("%+v: %d %s", a, got.Status, got.Body)
				}
				if s := text(t, a, got); s != "Hello from the fake provider." {
					t.Errorf("%+v says %q", a, s)
				}
				rec := recordOf(t, g, got)
				if rec.Model != model || rec.Attempts != 1 || rec.InputTokens == 0 || rec.OutputTokens != 5 {
					t.Errorf("%+v: record %+v", a, rec)
				}
				if stream && !strings.Contains(got.Body, `: bardo {"request_id":"`+got.Header.Get("X-Request-Id")) {
					t.Errorf("%+v: no summary in %s", a, got.Body)
				}
			}
		}
	}
	c := ask{dialect: fake.OpenAI, model: "gpt-4o-mini"}
	none := c.call()
	none.NoKey = true
	mustFail(t, c, g.Do(t, none), http.StatusUnauthorized, "invalid_api_key")
	wrong := c.call()
	wrong.Key = g.Key + "x"
	got := g.Do(t, wrong)
	mustFail(t, c, got, http.StatusUnauthorized, "invalid_api_key")
	if got.Header.Get("X-Should-Retry") != "false" {
		t.Error("clients that try again at a 401 are not told that it is of no use")
	}
	unknown := ask{dialect: fake.Anthropic, model: "gpt-4o-mimi"}
	mustFail(t, unknown, g.Do(t, unknown.call()), http.StatusNotFound, "model_not_found")
	if m := g.Metrics(t); len(m) == 0 {
		t.Error("no metrics")
	}
	g.AssertSound(t)
}
