package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/modeltest"
)

// TestR24VariablesHoldInTheRunningGateway, and in place of what the file says: the models of tiers, the spread, how often a failed call is made again, how similar
// a stored answer's question must be, and how long it is kept.
func TestR24VariablesHoldInTheRunningGateway(t *testing.T) {
	t.Parallel()
	config := quick + "models: {dir: " + modeltest.Dir(t) + ", load: start}\n" + semanticOn + "billing: {spread_pct: 5}\n" +
		"inference: {tiers: {T1: {provider: first/mini}, T2: {provider: first/maxi}}, caching: {threshold: 0.5, ttl_s: 3600}}\n"
	price := "{input: 10, output: 10}"
	all := []gateway.Model{{ID: "mini", Price: price}, {ID: "midi", Price: price}, {ID: "maxi", Price: price}}
	for _, row := range []struct {
		about          string
		env            []string
		t1, t2, spread string
		calls          int
		again          string // what the semantic cache says of a question in other words
		expires        bool
	}{
		{"the file", nil, "mini", "maxi", "1.05", 2, "semantic", false},
		{"variables", []string{
			"BARDO_T1_MODEL=first/midi", "BARDO_T2_MODEL=first/mini", "BARDO_INFERENCE_SPREAD_PCT=50", "BARDO_INFERENCE_MAX_RETRIES=0",
			"BARDO_INFERENCE_CACHE_THRESHOLD=0.999", "BARDO_INFERENCE_CACHE_TTL=1",
		}, "midi", "mini", "1.5", 1, "miss", true},
	} {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
			p.Behave(fake.Behaviour{JSON: decision("observe", 0.9, false), Usage: &fake.Usage{Input: 1000, Output: 1000}})
			g := gateway.Run(t, gateway.Options{Config: config, Env: row.env, Providers: []gateway.Provider{{ID: "first", Fake: p, Models: all}}})
			for subsystem, want := range map[string]string{"heartbeat_t1": row.t1, "heartbeat_t2": row.t2} {
				p.Forget()
				got := g.Do(t, ask{dialect: fake.OpenAI, model: "auto"}.call("X-Bardo-Subsystem: "+subsystem, "X-Bardo-Cache: off"))
				if calls := p.Generations(); got.Status != http.StatusOK || len(calls) != 1 || calls[0].Model != want {
					t.Errorf("%s: %d, served by %+v, want %s", subsystem, got.Status, got.Header.Get("X-Bardo-Model"), want)
				}
				var factor float64
				if _, err := fmt.Sscan(row.spread, &factor); err != nil {
					t.Fatal(err)
				}
				if cost := got.Header.Get("X-Bardo-Cost"); cost != fmt.Sprintf("%.6f", 0.02*factor) {
					t.Errorf("%s: it costs %s with a factor of %v", subsystem, cost, factor)
				}
			}
			p.Behave(fake.Behaviour{})
			cold := ask{dialect: fake.OpenAI, model: "midi", say: "Once more?", more: `"temperature":0`}
			mustKnow(t, g, cold, "miss")
			first, other := plainly(forms[0], "midi", "Who invented the telephone?"), plainly(forms[0], "midi", "Who was the inventor of the telephone?")
			eventually(t, "the embedding model", func() bool { _, k := asked(t, g, first); return k == "semantic" })
			if got, k := asked(t, g, other); k != row.again {
				t.Errorf("the other question: %q at %s, want %q", k, got.Header.Get("X-Bardo-Similarity"), row.again)
			}
			if !row.expires {
				mustKnow(t, g, cold, "hash")
			} else {
				eventually(t, "the end of the stored answer", func() bool { _, k := asked(t, g, cold); return k == "miss" })
			}
			p.Forget()
			p.Behave(fake.Behaviour{Status: http.StatusInternalServerError})
			if got := g.Do(t, ask{dialect: fake.OpenAI, model: "maxi", stream: true}.call("X-Bardo-Cache: off")); got.Status < 500 || len(p.Generations()) != row.calls {
				t.Errorf("%d after %d calls, want %d", got.Status, len(p.Generations()), row.calls)
			}
		})
	}
}
