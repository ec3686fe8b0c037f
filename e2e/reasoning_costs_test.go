package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// thought is what each provider says that an answer took: 500 tokens out, of which 300 are thinking. Each says it in its own way: Gemini
// counts 200 and 300, the others 500, and Anthropic's breakdown is of newer models.
var thought = fake.Behaviour{Thoughts: []fake.Thought{{Text: "Hm."}}, Usage: &fake.Usage{Input: 1000, Output: 500, Reasoning: 300}}

// dollars are models by their ids, and what 1,000 tokens in and 500 out cost by the catalog's prices.
type dollars map[string]string

// TestD43ThinkingIsBilledOnce from the providers' own words to the ledger, whole and streamed, for clients of both formats.
func TestD43ThinkingIsBilledOnce(t *testing.T) {
	t.Parallel()
	const free = quick + "billing: {spread_pct: 0}\n"
	claude, gpt, google := fake.Start(t, fake.Config{Dialect: fake.Anthropic}), fake.Start(t, fake.Config{Dialect: fake.OpenAI}), fake.Start(t, fake.Config{Dialect: fake.Gemini})
	vllm := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "vllm"})
	known := gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "anthropic", Fake: claude},
		{ID: "openai", Fake: gpt},
		{ID: "google", Fake: google},
		{ID: "vllm", Fake: vllm, Models: []gateway.Model{{ID: "qwen3-local", Price: "{input: 0.1, output: 0.3}"}}},
	}}
	vendors := free + "providers:\n"
	servers := []*fake.Server{claude, gpt, google, vllm}
	for _, v := range []vendor{
		{kind: fake.DeepSeek, section: `deepseek: {base_url: %q, api_key: %q}`},
		{kind: fake.Qwen, section: `qwen: {base_url: %q, api_key: %q}`},
		{kind: fake.Venice, section: `venice: {base_url: %q, api_key: %q, models: [{id: qwen3-5-397b-a17b, price: {input: 0.75, output: 4.5}}]}`},
		{kind: fake.OpenRouter, section: `openrouter: {endpoint: %q, api_key: %q, models: [{id: qwen3-thinks, upstream_id: qwen/qwen3-thinks}]}`},
	} {
		s, section := v.start(t)
		servers = append(servers, s)
		vendors += "  " + section + "\n"
	}
	for _, s := range servers {
		s.Behave(thought)
	}
	for name, group := range map[string]struct {
		options gateway.Options
		costs   dollars
	}{
		"known": {known, dollars{
			"claude-sonnet-4-5": "0.0105", "o3": "0.006", "gemini-2.5-pro": "0.00625", "qwen3-local": "0.00025",
		}},
		"vendors": {gateway.Options{Config: vendors}, dollars{
			"deepseek-v4-flash": "0.00028", "qwen-plus": "0.0024", "venice/qwen3-5-397b-a17b": "0.003", "qwen3-thinks": fake.OpenRouterCost,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gateway.Run(t, group.options)
			for model, cost := range group.costs {
				for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
					for _, stream := range []bool{false, true} {
						t.Run(fmt.Sprintf("%s for %s, stream=%v", model, d, stream), func(t *testing.T) { checkBilled(t, g, ask{dialect: d, model: model, stream: stream}, cost) })
					}
				}
			}
			g.AssertSound(t)
		})
	}
}

func checkBilled(t *testing.T, g *gateway.Gateway, a ask, cost string) {
	t.Helper()
	got := g.Do(t, a.call())
	if got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	r := recordOf(t, g, got)
	if r.InputTokens != 1000 || r.OutputTokens != 500 || r.Reasoning != 300 {
		t.Errorf("%d tokens in and %d out, of which %d of thinking", r.InputTokens, r.OutputTokens, r.Reasoning)
	}
	if charged := strings.Trim(fmt.Sprint(r.CostUSD), `"`); charged != cost {
		t.Errorf("it was charged %s, want %s", charged, cost)
	}
}
