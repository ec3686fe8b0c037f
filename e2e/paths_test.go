package e2e

import (
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestK95PathTricks: however a path is spelled, nobody gets in without a key, and nothing strange reaches a provider.
func TestK95PathTricks(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "own", Fake: p, Models: append(models("m", ""), models("vendor/m", "")...)}}})
	a := ask{dialect: fake.OpenAI, model: "m"}
	for _, path := range []string{
		"/v1/chat/completions", "/v1/v1/chat/completions", "/chat/completions", "//v1/chat/completions", "/v1//chat/completions",
		"/v1/../v1/chat/completions", "/v1/models/../chat/completions", "/v1%2fchat%2fcompletions", "/v1/%2e%2e/v1/chat/completions",
		"/healthz/../v1/chat/completions", "/healthz/..%2fv1/chat/completions", "/v1/chat/completions/", "/v1/chat/completions;x=/healthz",
		"/v1/chat/completions%00", "/V1/CHAT/COMPLETIONS", "/./v1/chat/completions",
	} {
		t.Run(path, func(t *testing.T) {
			p.Forget()
			none := gateway.Call{Path: path, Body: a.body(), NoKey: true}
			without := g.Do(t, none)
			if without.Status < 400 || without.Status >= 500 || len(p.Generations()) != 0 {
				t.Errorf("without a key: %d, %d calls", without.Status, len(p.Generations()))
			}
			wrong := g.Do(t, gateway.Call{Path: path, Body: a.body(), Key: "sk-nobodys"})
			got := g.Do(t, gateway.Call{Path: path, Body: a.body()})
			if got.Status != http.StatusOK && (got.Status < 400 || got.Status >= 500) {
				t.Errorf("with a key: %d %s", got.Status, got.Body)
			}
			// The decision is that of the plain path: who has no key, or a wrong one, is refused wherever a good one is served.
			if got.Status == http.StatusOK && (without.Status != http.StatusUnauthorized || wrong.Status != http.StatusUnauthorized || len(p.Generations()) != 1) {
				t.Errorf("served with a key; %d without one, %d with a wrong one, %d calls", without.Status, wrong.Status, len(p.Generations()))
			}
			if got.Status != http.StatusOK && len(p.Generations()) != 0 {
				t.Errorf("%d with a key, and the provider was asked", got.Status)
			}
			for _, r := range p.Generations() {
				if r.Path != "/v1/chat/completions" {
					t.Errorf("the provider was asked for %s", r.Path)
				}
			}
		})
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/v1/chat/completions", "/v1%2fchat%2Fcompletions"} {
		if got := g.Do(t, gateway.Call{Path: path, Body: a.body()}); got.Status != http.StatusOK {
			t.Errorf("D-53: %s: %d", path, got.Status)
		}
	}
	// OpenAI's SDKs encode the slash of a model's name.
	if got := g.Do(t, gateway.Call{Path: "/v1/models/vendor%2Fm"}); got.Status != http.StatusOK || !strings.Contains(got.Body, `"id":"vendor/m"`) {
		t.Errorf("the model vendor/m: %d %s", got.Status, got.Body)
	}
	if got := g.Do(t, gateway.Call{Method: http.MethodHead, Path: "/", NoKey: true}); got.Status != http.StatusOK {
		t.Errorf("D-53: HEAD /: %d", got.Status)
	}
}

// TestWhatThisVersionLacks: an endpoint of the providers that is not served here says so, as that provider's errors look.
func TestWhatThisVersionLacks(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}})
	for path, d := range map[string]fake.Dialect{
		"/v1/fine_tuning/jobs": fake.OpenAI, "/v1/assistants": fake.OpenAI, "/v1/images/dreams": fake.OpenAI,
	} {
		for _, key := range []bool{true, false} {
			a := ask{dialect: d, model: "m"}
			c := a.call()
			c.Path, c.NoKey = path, !key
			got := g.Do(t, c)
			mustFail(t, a, got, http.StatusNotFound, "not_found")
			if !strings.Contains(got.Body, "this version") || got.Header.Get("X-Request-Id") == "" {
				t.Errorf("%s: %v %s", path, got.Header, got.Body)
			}
		}
	}
	for _, verb := range []string{":embedContent", ":batchEmbedContents", ":predict"} {
		got := g.Do(t, gateway.Call{Path: "/v1beta/models/m" + verb, Body: `{"requests":[]}`})
		mustFail(t, ask{dialect: fake.Gemini}, got, http.StatusNotFound, "not_found")
		if !strings.Contains(got.Body, "does not serve "+verb) {
			t.Errorf("%s: %s", verb, got.Body)
		}
	}
	a := ask{dialect: fake.OpenAI, model: "m"}
	c := a.call()
	c.Path = "/v1/no/such/thing"
	if got := g.Do(t, c); got.Status != http.StatusNotFound || strings.Contains(got.Body, "this version") {
		t.Errorf("a path of nobody's: %d %s", got.Status, got.Body)
	}
	c.Method, c.Path = http.MethodGet, "/v1/chat/completions"
	got := g.Do(t, c)
	mustFail(t, a, got, http.StatusMethodNotAllowed, "method_not_allowed")
	if allow := got.Header.Get("Allow"); allow != http.MethodPost {
		t.Errorf("allow is %q", allow)
	}
	c.Method, c.Path = http.MethodDelete, "/v1/models"
	if got := g.Do(t, c); got.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("allow is %q of %d", got.Header.Get("Allow"), got.Status)
	}
	if n := len(p.Generations()); n != 0 {
		t.Errorf("%d calls reached a provider", n)
	}
}

// TestPitfall10InternalHeadersAreStripped: what Envoy or the gateway take for their own does not come in from outside.
func TestPitfall10InternalHeadersAreStripped(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}})
	got := g.Chat(t, ask{dialect: fake.OpenAI, model: "m"}.body(), "x-bardo-internal-provider: own", "x-envoy-max-retries: 9",
		"x-envoy-upstream-rq-timeout-ms: 1", "x-request-id: mine", "cookie: session=1", "openai-organization: org-mine", "proxy-authorization: Basic eA==")
	if got.Status != http.StatusOK || got.Header.Get("X-Request-Id") == "mine" {
		t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
	}
	r := lastOf(t, p)
	for name := range r.Header {
		l := strings.ToLower(name)
		if strings.HasPrefix(l, "x-bardo-") || strings.HasPrefix(l, "x-envoy-") || l == "cookie" || l == "openai-organization" || l == "proxy-authorization" {
			t.Errorf("the provider got %s: %v", name, r.Header[name])
		}
	}
}

// TestK85ClaudeCodeHabits: many token counts at once, ?beta=true, and beta flags that nobody has heard of.
func TestK85ClaudeCodeHabits(t *testing.T) {
	t.Parallel()
	n := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	o := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "aa", Fake: n, Format: "anthropic", Models: models("claude-x", "")}, {ID: "oo", Fake: o, Models: models("gpt-x", "")},
	}})
	header := []string{"anthropic-version: 2023-06-01", "anthropic-beta: claude-code-20250219,interleaved-thinking-2025-05-14"}
	t.Run("a burst of token counts", func(t *testing.T) {
		for _, model := range []string{"claude-x", "gpt-x"} {
			for range 30 {
				t.Run(model, func(t *testing.T) {
					t.Parallel()
					got := g.Do(t, gateway.Call{
						Path: "/v1/messages/count_tokens?beta=true", Header: header,
						Body: `{"model":"` + model + `","messages":[{"role":"user","content":"how many?"}]}`,
					})
					var c struct {
						InputTokens int `json:"input_tokens"`
					}
					got.JSON(t, &c)
					if got.Status != http.StatusOK || c.InputTokens < 1 {
						t.Errorf("%s: %d %s", model, got.Status, got.Body)
					}
				})
			}
		}
	})
	t.Run("?beta=true and flags reach an Anthropic provider", func(t *testing.T) {
		a := ask{dialect: fake.Anthropic, model: "claude-x", stream: true}
		c := a.call("anthropic-beta: claude-code-20250219,interleaved-thinking-2025-05-14")
		c.Path += "?beta=true"
		text(t, a, g.Do(t, c))
		r := lastOf(t, n)
		if r.RawQuery != "beta=true" || !strings.Contains(strings.Join(r.Header.Values("Anthropic-Beta"), ","), "interleaved-thinking-2025-05-14") {
			t.Errorf("query %q, flags %v", r.RawQuery, r.Header.Values("Anthropic-Beta"))
		}
	})
	t.Run("neither reaches another one", func(t *testing.T) {
		a := ask{dialect: fake.Anthropic, model: "gpt-x", stream: true}
		c := a.call("anthropic-beta: claude-code-20250219,some-flag-2099-01-01")
		c.Path += "?beta=true"
		text(t, a, g.Do(t, c))
		if r := lastOf(t, o); r.RawQuery != "" || r.Header.Get("Anthropic-Beta") != "" || r.Header.Get("Anthropic-Version") != "" {
			t.Errorf("query %q, headers %v", r.RawQuery, r.Header)
		}
	})
	t.Run("K-54 a provider without count_tokens stays in use", func(t *testing.T) {
		n.BehaveOn("/messages/count_tokens", fake.Behaviour{Status: 404})
		got := g.Do(t, gateway.Call{Path: "/v1/messages/count_tokens", Header: header, Body: `{"model":"claude-x","messages":[{"role":"user","content":"x"}]}`})
		if got.Status >= 500 {
			t.Errorf("%d %s", got.Status, got.Body)
		}
		if got = g.Messages(t, ask{dialect: fake.Anthropic, model: "claude-x"}.body()); got.Status != http.StatusOK {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	})
}

// TestK89SpellingsOfAModel: a dot for a dash finds the model, which goes out and comes back under its own name.
func TestK89SpellingsOfAModel(t *testing.T) {
	t.Parallel()
	n := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "anthropic", Fake: n}}})
	for _, a := range everyKind("claude-opus-4.6") {
		got := g.Do(t, a.call())
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Model") != "claude-opus-4-6" {
			t.Errorf("%+v: %d, model %q: %s", a, got.Status, got.Header.Get("X-Bardo-Model"), got.Body)
		}
		if m := lastOf(t, n).Model; m != "claude-opus-4-6" {
			t.Errorf("%+v: the provider was asked for %q", a, m)
		}
	}
}
