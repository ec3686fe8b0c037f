package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/modeltest"
)

// edgeLab is a gateway, the edge, whose only provider is another one, the origin, which has a provider of each format.
type edgeLab struct {
	edge, origin *gateway.Gateway
	providers    map[string]*fake.Server // by the model that each serves
	alice        string                  // a key at the edge
	account      string                  // the edge's key at the origin
}

// behind is the configuration of a gateway whose provider is another one.
func behind(id string, at *gateway.Gateway, key string) string {
	return fmt.Sprintf("    - {id: %s, format: bardo, endpoints: [%q], api_key: %q}\n", id, at.URL+"/v1", key)
}

// startEdge starts both. more is further configuration of the edge.
func startEdge(t *testing.T, more string) *edgeLab {
	t.Helper()
	l := &edgeLab{providers: map[string]*fake.Server{}}
	o := gateway.Options{Config: quick}
	for model, d := range map[string]fake.Dialect{"m-openai": fake.OpenAI, "m-anthropic": fake.Anthropic, "m-gemini": fake.Gemini} {
		p := fake.Start(t, fake.Config{Dialect: d})
		l.providers[model] = p
		o.Providers = append(o.Providers, gateway.Provider{ID: "of-" + string(d), Fake: p, Format: string(d), Models: models(model, "")})
	}
	l.origin = gateway.Run(t, o)
	l.account = l.origin.CreateKey(t, "--name", "edge", "--balance-usd", "5").Key
	l.edge = gateway.Run(t, gateway.Options{Config: quick + "providers:\n  custom:\n" + behind("origin", l.origin, l.account) + more})
	l.alice = l.edge.CreateKey(t, "--name", "alice", "--balance-usd", "5").Key
	eventually(t, "the origin's list of models, with what the edge pays", func() bool {
		got := l.edge.Do(t, gateway.Call{Path: "/v1/models/m-gemini", Key: l.alice})
		return strings.Contains(got.Body, `"price":{"input":1.200000,"output":2.400000,`)
	})
	return l
}

// edgeCalls are requests in each format, alone and streamed, for each model.
func edgeCalls() (calls []gateway.Call) {
	for _, model := range []string{"m-openai", "m-anthropic", "m-gemini"} {
		for _, stream := range []bool{false, true} {
			for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini} {
				calls = append(calls, ask{dialect: d, model: model, stream: stream, say: "wörds \u2028 and more", tokens: 64}.call())
			}
			calls = append(calls, gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(`{"model":%q,"stream":%v,"input":"wörds","max_output_tokens":64,"store":false}`, model, stream)})
		}
	}
	return calls
}

// TestE06AnEdgePassesRequestsUnchanged: what the origin's providers get is the same, byte for byte, whether a client calls the edge or the origin; the edge's
// charge is what the origin charged the edge, with the origin's spread, and the edge's own spread.
func TestE06AnEdgePassesRequestsUnchanged(t *testing.T) {
	t.Parallel()
	l := startEdge(t, "")
	for _, c := range edgeCalls() {
		t.Run(c.Path+" "+c.Body[:min(len(c.Body), 60)], func(t *testing.T) {
			var sent []string
			for _, g := range []*gateway.Gateway{l.origin, l.edge} {
				c.Key = map[*gateway.Gateway]string{l.origin: l.account, l.edge: l.alice}[g]
				c.Header = append(c.Header, "x-bardo-cache: no-store")
				before := balanceOf(t, l.origin, l.account)
				got := g.Do(t, c)
				if got.Status != http.StatusOK || !strings.Contains(got.Body, "provider.") {
					t.Fatalf("%d %s", got.Status, got.Body)
				}
				if g == l.edge {
					cost := l.costOf(t, got)
					if paid := before - balanceOf(t, l.origin, l.account); paid == 0 || cost < paid*12/10 || cost > paid*12/10+1 {
						t.Errorf("alice paid %d, the edge %d", cost, paid)
					}
					if n := strings.Count(got.Body, ": bardo {"); n > 1 || strings.Contains(got.Body, `"provider":"openai"`) {
						t.Errorf("%d comments: %s", n, got.Body)
					}
				}
				for model, p := range l.providers {
					if strings.Contains(c.Path+c.Body, model) {
						sent = append(sent, string(lastOf(t, p).Body))
					}
				}
			}
			if len(sent) != 2 || sent[0] != sent[1] {
				t.Errorf("the providers got\n%s", strings.Join(sent, "\n"))
			}
		})
	}
	l.edge.AssertSound(t)
	l.origin.AssertSound(t)
}

// costOf is what the edge's record of an answer says that it cost, in millionths.
func (l *edgeLab) costOf(t *testing.T, got gateway.Answer) int64 {
	t.Helper()
	var r struct {
		Provider string
		Cost     json.Number `json:"cost_usd"`
	}
	get(t, l.edge, l.alice, "/v1/requests/"+got.Header.Get("X-Request-Id"), &r)
	if r.Provider != "origin" {
		t.Errorf("%+v", r)
	}
	return micro(t, r.Cost)
}

// calls is how many requests reached the origin's providers.
func (l *edgeLab) calls() (n int) {
	for _, p := range l.providers {
		n += len(p.Generations())
	}
	return n
}

// TestE06AnEdgeAnswersAlone what needs no origin: it refuses unknown keys, limits, and requests that ask for privacy, and answers repeated questions from its
// cache. The origin, to which all its callers are one, has no cache for them: they would share answers.
func TestE06AnEdgeAnswersAlone(t *testing.T) {
	t.Parallel()
	l := startEdge(t, fmt.Sprintf("models: {dir: %s, load: start}\npipeline: {semantic: on, semantic_timeout: 20s, injection: {policy: block, timeout: 20s}}\n", modeltest.Dir(t)))
	a := ask{dialect: fake.OpenAI, model: "m-openai", more: `"temperature":0`, say: "What is the population of Oslo?"}
	eventually(t, "the local models of the edge", func() bool {
		_, body := bodyOf(t, l.edge.Admin+"/readyz?verbose")
		return strings.Count(body, " is in memory") == 2
	})
	if got := l.edge.Do(t, a.with(l.alice)); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if got := l.edge.Do(t, a.with(l.alice)); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cache") != "hash" || got.Header.Get("X-Bardo-Cost") != "0.000000" {
		t.Errorf("%d %v", got.Status, got.Header)
	}
	reworded := a
	reworded.say = "tell me what the population of Oslo is, please"
	eventually(t, "the stored question, which is embedded in the background", func() bool {
		return l.edge.Do(t, reworded.with(l.alice, "x-bardo-cache: no-store")).Header.Get("X-Bardo-Cache") == "semantic"
	})
	paid, before := balanceOf(t, l.origin, l.account), l.calls()
	if got := l.edge.Do(t, reworded.with(l.alice)); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cache") != "semantic" {
		t.Errorf("%d %v", got.Status, got.Header)
	}
	injected := brought(fake.OpenAI, false, overrides)
	injected.Key, injected.Body = l.alice, strings.Replace(injected.Body, `"m"`, `"m-openai"`, 1)
	mustFail(t, a, l.edge.Do(t, injected), http.StatusBadRequest, "prompt_injection")
	mustFail(t, a, l.edge.Do(t, a.with("bardo_sk_unknown")), http.StatusUnauthorized, "invalid_api_key")
	limited := l.edge.CreateKey(t, "--name", "limited", "--rpm", "1").Key
	l.edge.Do(t, a.with(limited, "x-bardo-cache: no-store"))
	mustFail(t, a, l.edge.Do(t, a.with(limited, "x-bardo-cache: no-store")), http.StatusTooManyRequests, "rate_limit_exceeded")
	if got := l.edge.Do(t, a.with(l.alice, "x-bardo-security-class: private", "x-bardo-cache: no-store")); got.Status/100 == 2 {
		t.Errorf("a private request was answered by %s", got.Header.Get("X-Bardo-Provider"))
	}
	if n := l.calls() - before; n != 1 {
		t.Errorf("%d requests reached a provider, beside the limited key's first", n-1)
	}
	if now := balanceOf(t, l.origin, l.account); now >= paid {
		t.Errorf("the limited key's request cost the edge nothing: %d of %d", now, paid)
	}
	l.edge.AssertSound(t)
}

// TestE06AnOriginGetsTheHints of headers and bodies, and applies them: the parameters of the subsystem and its schema are in the provider's request once.
func TestE06AnOriginGetsTheHints(t *testing.T) {
	t.Parallel()
	l := startEdge(t, "")
	for _, a := range []ask{
		{dialect: fake.OpenAI, model: "m-openai", tokens: 500, more: `"bardo":{"golem_id":"g-7","tick":7,"require":["tools"]}`},
		{dialect: fake.Anthropic, model: "m-anthropic", more: `"bardo":{"golem_id":"g-7","tick":7}`, stream: true},
	} {
		var sent []string
		for _, g := range []*gateway.Gateway{l.origin, l.edge} {
			key := map[*gateway.Gateway]string{l.origin: l.account, l.edge: l.alice}[g]
			got := g.Do(t, a.with(key, "x-bardo-subsystem: curator", "x-bardo-cache: no-store"))
			if got.Header.Get("X-Bardo-Subsystem") != "curator" {
				t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
			}
			sent = append(sent, string(lastOf(t, l.providers[a.model]).Body))
		}
		if sent[0] != sent[1] || !strings.Contains(sent[0], "temperature") {
			i := 0
			for i < min(len(sent[0]), len(sent[1])) && sent[0][i] == sent[1][i] {
				i++
			}
			t.Errorf("the provider got\n…%s\n…%s", sent[0][max(i-40, 0):], sent[1][max(i-40, 0):])
		}
		if strings.Contains(sent[1], "g-7") {
			t.Errorf("a hint reached the provider: %s", sent[1])
		}
	}
	if usage := l.origin.Bardo(t, "usage", "--by", "golem", "--format", "csv"); strings.Count(usage, ":g-7,") != 1 {
		t.Errorf("the origin's usage: %s", usage)
	}
}

// TestE06AnEdgeHasSeveralOrigins: if one is down, the next one answers; one that refuses the edge's money is the edge's trouble, not its caller's.
func TestE06AnEdgeHasSeveralOrigins(t *testing.T) {
	t.Parallel()
	l := startEdge(t, "")
	poor := l.origin.CreateKey(t, "--name", "poor", "--balance-usd", "0").Key
	spare := startEdge(t, "")
	g := gateway.Run(t, gateway.Options{Config: quick + "providers:\n  order: [first, second]\n  custom:\n" + behind("first", l.origin, l.account) + behind("second", spare.origin, spare.account)})
	a := ask{dialect: fake.Anthropic, model: "m-anthropic", stream: true}
	if got := g.Do(t, a.call("x-bardo-cache: no-store")); got.Header.Get("X-Bardo-Provider") != "first" || text(t, a, got) == "" {
		t.Errorf("%d %v", got.Status, got.Header)
	}
	g.Configure(t, gateway.Options{Config: quick + "providers:\n  order: [first, second]\n  custom:\n" + behind("first", l.origin, poor) + behind("second", spare.origin, spare.account)})
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second origin, with a key of the first that has no balance", func() bool {
		got := g.Do(t, a.call("x-bardo-cache: no-store"))
		return got.Status == http.StatusOK && got.Header.Get("X-Bardo-Provider") == "second" && text(t, a, got) != ""
	})
	if err := l.origin.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := g.Do(t, a.call("x-bardo-cache: no-store")); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "second" {
		t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
	}
}

// TestE06GatewaysInACircle: a request that they pass on to each other ends, with an error that says so.
func TestE06GatewaysInACircle(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	one := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}})
	key := one.CreateKey(t, "--name", "two").Key
	two := gateway.Run(t, gateway.Options{Config: quick + "providers:\n  custom:\n" + behind("one", one, key)})
	back := two.CreateKey(t, "--name", "one").Key
	one.Configure(t, gateway.Options{Config: quick + "providers:\n  custom:\n" + behind("two", two, back)})
	if err := one.Reload(); err != nil {
		t.Fatal(err)
	}
	for _, a := range []ask{{dialect: fake.OpenAI, model: "m"}, {dialect: fake.Anthropic, model: "m", stream: true}} {
		eventually(t, "the end of the circle", func() bool {
			got := one.Do(t, a.with(key, "x-bardo-cache: no-store"))
			return got.Status == http.StatusBadRequest && strings.Contains(got.Body, "circle")
		})
	}
	one.AssertSound(t)
	two.AssertSound(t)
}
