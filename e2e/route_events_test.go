package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestEventsOfRoutes: who was chosen for a dream, what of its wishes is there, and who stood in.
func TestEventsOfRoutes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.jsonl")
	vault, open := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "vault"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "open"})
	const model = "{id: r1, quality: high, context: 100000, max_output: 20000, latency_p50_ms: 500, capabilities: [visible_thinking], thinking: {control: always}}"
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
telemetry: {events: "file:%s"}
providers:
  order: [vault, open]
  custom:
    - {id: vault, private: true, endpoints: [%q], api_key: %s, models: [%s]}
    - {id: open, endpoints: [%q], api_key: %s, models: [%s]}
`, file, vault.URL, vault.Key, model, open.URL, open.Key, model)})
	vault.Behave(fake.Behaviour{Status: http.StatusServiceUnavailable})
	got := served(t, g, ask{dialect: fake.OpenAI, model: "auto"}, "X-Bardo-Subsystem: dream")
	if p, lacks := got.Header.Get("X-Bardo-Provider"), got.Header.Get("X-Bardo-Degraded"); p != "open" || !strings.Contains(lacks, "privacy") {
		t.Errorf("answered by %s, degraded %q", p, lacks)
	}
	said := map[string]map[string]any{}
	eventually(t, "the three events", func() bool {
		b, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		for line := range strings.Lines(string(b)) {
			var e struct {
				Event string
				Data  map[string]any
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			said[e.Event] = e.Data
		}
		return said["provider:fallback"] != nil && said["provider:feature_negotiated"] != nil
	})
	for event, want := range map[string]string{
		"provider:resolved":           `{"degraded":[],"features":["visible_thinking","privacy","no_log"],"model":"r1","provider":"vault","subsystem":"dream"}`,
		"provider:feature_negotiated": `{"available":["visible_thinking","privacy"],"mode":"full","requested":["visible_thinking","privacy"],"subsystem":"dream"}`,
		"provider:fallback":           `{"failed":"vault","fallback":"open","reason":"status_503"}`,
	} {
		if id := got.Header.Get("X-Request-Id"); said[event]["request_id"] != id {
			t.Errorf("%s is about %v, not %s", event, said[event]["request_id"], id)
		}
		delete(said[event], "request_id")
		b, err := json.Marshal(said[event])
		if err != nil {
			t.Fatal(err)
		}
		if string(b) != want {
			t.Errorf("%s says %s, want %s", event, b, want)
		}
	}
}

// TestEventsOfAnswers: what the provider's cache gave, and that Venice showed its reasoning.
// TestC15WhatAProvidersCacheSavedCountsThePremium on what was written to it, and the prices of a long prompt.
func TestC15WhatAProvidersCacheSavedCountsThePremium(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.jsonl")
	p := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf("telemetry: {events: \"file:%s\"}\n", file), Providers: []gateway.Provider{{
		ID: "p", Fake: p, Format: "anthropic", Models: []gateway.Model{{
			ID: "m", Price: "{input: 10, output: 20, cached_input: 1, cache_write: 12.5, above: [{tokens: 1000, input: 20, output: 40, cached_input: 2, cache_write: 25}]}",
		}},
	}}})
	for _, u := range []fake.Usage{{Input: 10, Cached: 100, CacheWrite5m: 40, Output: 5}, {Input: 10, Cached: 2000, CacheWrite5m: 40, Output: 5}, {Input: 10, Cached: 10, CacheWrite5m: 400, Output: 5}} {
		p.Behave(fake.Behaviour{Usage: &u})
		served(t, g, ask{dialect: fake.Anthropic, model: "m", say: fmt.Sprint(u)})
	}
	// 100 x 9 less 40 x 2.5; 2000 x 18 less 40 x 5; 10 x 9 less 400 x 2.5, in millionths
	for _, want := range []string{`"cached_tokens":100,"total_tokens":150,"savings_usd":0.0008}`, `"cached_tokens":2000,"total_tokens":2050,"savings_usd":0.0358}`, `"cached_tokens":10,"total_tokens":420,"savings_usd":-0.00091}`} {
		eventually(t, want, func() bool {
			b, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(b), want)
		})
	}
}

func TestEventsOfAnswers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.jsonl")
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "venice", Vendor: fake.Venice})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Cached: 60, Output: 30, Reasoning: 20}, Extra: `"venice_parameters":{"web_search_citations":[{"url":"https://a.example"}]}`})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
telemetry: {events: "file:%s"}
providers: {venice: {base_url: %q, api_key: %s, models: [{id: deepseek-r1, price: {input: 10, output: 20, cached_input: 1, per_search: 0.01}}]}}
`, file, p.URL, p.Key)})
	for _, stream := range []bool{false, true} {
		served(t, g, ask{dialect: fake.OpenAI, model: "deepseek-r1", stream: stream}, "X-Bardo-Subsystem: dream")
	}
	var said string
	eventually(t, "the events of both", func() bool {
		b, err := os.ReadFile(file)
		said = string(b)
		return err == nil && strings.Count(said, "venice:reasoning_extracted") == 2
	})
	for want, times := range map[string]int{
		`"subsystem":"dream","cached_tokens":60,"total_tokens":160,"savings_usd":0.00054}`: 2, `"subsystem":"dream","reasoning_tokens":20}`: 2,
		`"inference:web_search_used"`: 2, `"venice:web_search"`: 2, `"subsystem":"dream","provider":"venice","searches":1}`: 4,
	} {
		if n := strings.Count(said, want); n != times {
			t.Errorf("%s comes %d times in\n%s", want, n, said)
		}
	}
}
