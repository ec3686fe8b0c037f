package resolve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/resolve"
)

// crowd is a resolver with 500 models, all of them at the two broad providers and some at each of four others.
func crowd(t testing.TB) *resolve.Resolver {
	t.Helper()
	var models strings.Builder
	models.WriteString("models:\n")
	families := []string{"claude", "gpt", "gemini", "deepseek", "qwen", "llama"}
	capabilities := []string{
		"tools, vision, citations, interleaved_thinking, adaptive_thinking", "tools, vision, structured_outputs, low_effort", "tools, low_effort",
		"tools, visible_thinking", "tools, visible_thinking, low_effort", "tools",
	}
	qualities := []string{"minimum", "low", "medium", "high", "maximum"}
	var listed [4][]string
	for i := range 500 {
		family := i % len(families)
		id := fmt.Sprintf("%s-%d", families[family], i)
		fmt.Fprintf(&models, "  - {id: %s, family: %s, context: 200000, max_output: 64000, price: {input: %d.%02d, output: %d}, capabilities: [%s], quality: %s, latency_p50_ms: %d}\n",
			id, families[family], i%30, i%100, i%90, capabilities[family], qualities[i%len(qualities)], 200+i*37%9000)
		if i < 400 {
			listed[i%4] = append(listed[i%4], "{id: "+id+"}")
		}
	}
	file, problems := config.ParseModels("models.yaml", []byte(models.String()))
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	c := catalog.New(file)
	var every []modelfile.Model
	for _, m := range file.Models {
		every = append(every, modelfile.Model{ID: m.ID})
	}
	cfg, problems := config.Parse("config.yaml", fmt.Appendf(nil, `
providers:
  order: [blockrun, openrouter, venice, bankr, a, b]
  blockrun: {endpoint: https://b.test, api_key: x, models: [{id: x}]}
  openrouter: {endpoint: https://o.test/v1, api_key: x, models: [{id: x}]}
  venice: {base_url: https://v.test/v1, api_key: x, models: [%s]}
  bankr: {endpoint: https://k.test/v1, api_key: x, models: [%s], revenue_balance_usd: 100, lifetime_revenue_usd: 9, lifetime_cost_usd: 3}
  custom:
    - {id: a, endpoints: [http://localhost:1/v1], models: [%s]}
    - {id: b, endpoints: [http://localhost:2/v1], models: [%s]}
`, strings.Join(listed[0], ", "), strings.Join(listed[1], ", "), strings.Join(listed[2], ", "), strings.Join(listed[3], ", ")),
		func(string) (string, bool) { return "", false }, kinds...)
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	providers := enabled(cfg)
	for i := range providers[:2] {
		providers[i].Models = every
	}
	return resolve.New(c, providers)
}

func BenchmarkDecide500(b *testing.B) {
	r := crowd(b)
	for _, name := range []string{"heartbeat_t1", "risk", "dream", "social"} {
		in := intent.Of(name)
		in.InputTokens, in.OutputTokens, in.Tools, in.Effort = 4000, 2000, true, policy.EffortHigh
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d := r.Decide(&in); d.Err != nil {
					b.Fatal(d.Err)
				}
			}
		})
	}
	b.Run("named", func(b *testing.B) {
		b.ReportAllocs()
		in := policy.Intent{Model: "claude-6", CostSensitivity: 0.5, InputTokens: 4000, OutputTokens: 2000}
		for b.Loop() {
			if d := r.Decide(&in); d.Err != nil {
				b.Fatal(d.Err)
			}
		}
	})
}

// What a decision allocates does not grow with the models that are looked at.
func TestADecisionAllocatesLittle(t *testing.T) {
	r := crowd(t)
	for _, name := range intent.Names() {
		in := intent.Of(name)
		in.MaxLatency = time.Minute
		if n := testing.AllocsPerRun(100, func() { r.Decide(&in) }); n > 25 && name != "heartbeat_t0" {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
