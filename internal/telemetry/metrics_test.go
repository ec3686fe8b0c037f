package telemetry

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// scrape returns the lines of the metrics as Prometheus reads them.
func scrape(t *testing.T, m *Metrics) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return strings.Split(w.Body.String(), "\n")
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !slices.Contains(got, line) {
			name, _, _ := strings.Cut(line, "{")
			near := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return !strings.HasPrefix(s, name) })
			t.Errorf("%s is missing among\n%s", line, strings.Join(near, "\n"))
		}
	}
}

func newMetrics() *Metrics {
	m := New(Build{Version: "1.2.3", Revision: "abc"})
	m.SetModels([]string{"claude-sonnet-4-5"})
	return m
}

func answered() *Request {
	return &Request{
		Provider: "anthropic", Model: "claude-sonnet-4-5", Status: 200, Streamed: true,
		Duration: 3 * time.Second, FirstToken: time.Second, Overhead: 40 * time.Microsecond,
		Tokens:       Tokens{Input: 100, Cached: 20, CacheWrite: 3, Output: 5, Reasoning: 2},
		ProviderCost: 1_500_000, Charged: 2,
	}
}

func TestAnAnsweredRequestIsCounted(t *testing.T) {
	m := newMetrics()
	m.RequestDone(answered())
	const who = `gen_ai_operation_name="chat",gen_ai_provider_name="anthropic",gen_ai_request_model="claude-sonnet-4-5"`
	const ours = `model="claude-sonnet-4-5",provider="anthropic"`
	wantLines(t, scrape(t, m),
		`bardo_requests_total{code="ok",status="200"} 1`,
		`gen_ai_client_token_usage_sum{`+who+`,gen_ai_token_type="input"} 123`,
		`gen_ai_client_token_usage_sum{`+who+`,gen_ai_token_type="output"} 5`,
		`gen_ai_server_request_duration_seconds_sum{error_type="",`+who+`} 3`,
		`gen_ai_server_time_to_first_token_seconds_sum{`+who+`} 1`,
		`gen_ai_server_time_per_output_token_seconds_sum{`+who+`} 0.5`,
		`bardo_tokens_total{`+ours+`,type="input"} 100`,
		`bardo_tokens_total{`+ours+`,type="cached"} 20`,
		`bardo_tokens_total{`+ours+`,type="cache_write"} 3`,
		`bardo_tokens_total{`+ours+`,type="output"} 5`,
		`bardo_tokens_total{`+ours+`,type="reasoning"} 2`,
		`bardo_provider_cost_micro_usd_total{`+ours+`} 1.5`,
		`bardo_charged_micro_usd_total{`+ours+`} 2`,
		`bardo_overhead_seconds_count 1`,
	)
}

func TestARefusedRequestHasNoTokens(t *testing.T) {
	m := newMetrics()
	m.RequestDone(&Request{Status: 401, Code: "invalid_api_key", Duration: time.Millisecond})
	lines := scrape(t, m)
	wantLines(t, lines,
		`bardo_requests_total{code="invalid_api_key",status="401"} 1`,
		`gen_ai_server_request_duration_seconds_count{error_type="invalid_api_key",gen_ai_operation_name="chat",gen_ai_provider_name="",gen_ai_request_model=""} 1`,
	)
	for _, l := range lines {
		if strings.HasPrefix(l, "bardo_tokens_total{") || strings.HasPrefix(l, "bardo_overhead_seconds_count 1") {
			t.Error(l)
		}
	}
}

func TestARequestThatFailedMidwayKeepsItsCost(t *testing.T) {
	m := newMetrics()
	r := answered()
	r.Code = "upstream_error"
	m.RequestDone(r)
	wantLines(t, scrape(t, m),
		`bardo_requests_total{code="upstream_error",status="200"} 1`,
		`bardo_charged_micro_usd_total{model="claude-sonnet-4-5",provider="anthropic"} 2`,
		`gen_ai_server_request_duration_seconds_count{error_type="upstream_error",gen_ai_operation_name="chat",gen_ai_provider_name="anthropic",gen_ai_request_model="claude-sonnet-4-5"} 1`,
	)
}

func TestInventedNamesMakeNoSeries(t *testing.T) {
	m := newMetrics()
	m.RequestDone(answered())
	before := len(scrape(t, m))
	for i := range 100 {
		r := answered()
		r.Model = "invented-" + strconv.Itoa(i)
		r.Status = 1000 + i
		m.RequestDone(r)
		m.AttemptDone(&Attempt{Provider: "anthropic", Model: r.Model, Outcome: outcomes + Outcome(i)})
	}
	lines := scrape(t, m)
	wantLines(t, lines,
		`bardo_charged_micro_usd_total{model="other",provider="anthropic"} 200`,
		`bardo_requests_total{code="ok",status="0"} 100`,
		`bardo_attempts_total{outcome="other",provider="anthropic"} 100`,
	)
	if grown := len(lines) - before; grown > 150 {
		t.Errorf("%d lines more", grown)
	}
}

func TestSeriesAreBounded(t *testing.T) {
	m := New(Build{})
	models := make([]string, 0, 3*maxSeries)
	for i := range cap(models) {
		models = append(models, "m"+strconv.Itoa(i))
	}
	m.SetModels(models)
	for _, id := range models {
		m.RequestDone(&Request{Provider: "p", Model: id, Status: 200})
		m.AttemptDone(&Attempt{Provider: "p", Model: id})
	}
	if m.series.len() > maxSeries+1 || m.calls.len() > maxSeries+1 {
		t.Errorf("%d and %d series, want at most %d", m.series.len(), m.calls.len(), maxSeries+1)
	}
}

func TestNegativeAmountsAreLeftOut(t *testing.T) {
	m := newMetrics()
	r := answered()
	r.Tokens.Reasoning, r.Charged, r.ProviderCost, r.FirstToken = -1, -1, -1, 2*r.Duration
	m.RequestDone(r)
	wantLines(t, scrape(t, m), `bardo_charged_micro_usd_total{model="claude-sonnet-4-5",provider="anthropic"} 0`)
}

func TestAttemptsAndFailovers(t *testing.T) {
	m := newMetrics()
	m.AttemptDone(&Attempt{Provider: "openai", Model: "claude-sonnet-4-5", Outcome: RateLimited, Duration: time.Second, FailedOver: true})
	m.AttemptDone(&Attempt{Provider: "anthropic", Model: "claude-sonnet-4-5", Outcome: Served, Duration: 2 * time.Second})
	lines := scrape(t, m)
	wantLines(t, lines,
		`bardo_attempts_total{outcome="rate_limited",provider="openai"} 1`,
		`bardo_attempts_total{outcome="served",provider="anthropic"} 1`,
		`bardo_failovers_total{provider="openai",reason="rate_limited"} 1`,
		`gen_ai_client_operation_duration_seconds_sum{error_type="rate_limited",gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="claude-sonnet-4-5"} 1`,
		`gen_ai_client_operation_duration_seconds_sum{error_type="",gen_ai_operation_name="chat",gen_ai_provider_name="anthropic",gen_ai_request_model="claude-sonnet-4-5"} 2`,
	)
	if slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, `bardo_failovers_total{provider="anthropic"`) }) {
		t.Error("a served attempt counts as a failover")
	}
}

func TestEveryOutcomeHasAName(t *testing.T) {
	seen := map[string]bool{}
	for o := range outcomes {
		if o.String() == "" || seen[o.String()] {
			t.Errorf("outcome %d is named %q", o, o)
		}
		seen[o.String()] = true
	}
}

func TestGaugesOfTheMoment(t *testing.T) {
	m := newMetrics()
	m.ExchangeStarted()
	m.ExchangeStarted()
	m.ExchangeEnded()
	m.StreamOpened()
	m.WatchHolds(func() (int, int64) { return 3, 4_000_000 })
	m.WatchLedger(func() (bool, int) { return false, 12 })
	m.ProviderHealth("openai", true)
	m.ProviderHealth("venice", false)
	m.ProviderHealth("gone", true)
	m.ProviderRemoved("gone")
	m.LedgerCommitted(5*time.Millisecond, 12)
	m.CacheLookup(CacheHash)
	m.CacheLookup(CacheCoalesced + 1)
	m.LayerDone("injection", 20*time.Microsecond)
	m.LayerDone("injection", 20*time.Microsecond)
	m.LayerCalled("l5")
	lines := scrape(t, m)
	wantLines(t, lines,
		`bardo_active_exchanges 1`,
		`bardo_extproc_streams 1`,
		`bardo_holds 3`,
		`bardo_layer_calls_total{layer="l5"} 1`,
		`bardo_ledger_writable 0`,
		`bardo_ledger_unwritten_charges 12`,
		`bardo_held_micro_usd 4e+06`,
		`bardo_provider_healthy{provider="openai"} 1`,
		`bardo_provider_healthy{provider="venice"} 0`,
		`bardo_ledger_commit_seconds_sum 0.005`,
		`bardo_ledger_commit_operations_sum 12`,
		`bardo_cache_requests_total{result="hash"} 1`,
		`bardo_cache_requests_total{result="miss"} 0`,
		`bardo_layer_duration_seconds_count{layer="injection"} 2`,
	)
	if slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, `"gone"`) }) {
		t.Error("a removed provider is still shown")
	}
	if !slices.ContainsFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, `bardo_build_info{`) && strings.Contains(l, `revision="abc",version="1.2.3"`)
	}) {
		t.Error("no build info")
	}
	m.StreamClosed()
	wantLines(t, scrape(t, m), `bardo_extproc_streams 0`)
}

func TestCountingTogetherLosesNothing(t *testing.T) {
	m := newMetrics()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				r := answered()
				r.Status = 200 + i
				m.RequestDone(r)
				m.LayerDone(strconv.Itoa(i), time.Microsecond)
			}
		})
	}
	all.Wait()
	wantLines(t, scrape(t, m), `bardo_charged_micro_usd_total{model="claude-sonnet-4-5",provider="anthropic"} 1600`, `bardo_requests_total{code="ok",status="207"} 100`)
}

func BenchmarkRequestDone(b *testing.B) {
	m := newMetrics()
	r := answered()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.RequestDone(r)
		}
	})
}

func BenchmarkAttemptDone(b *testing.B) {
	m := newMetrics()
	a := &Attempt{Provider: "anthropic", Model: "claude-sonnet-4-5", Duration: time.Second}
	b.ReportAllocs()
	for b.Loop() {
		m.AttemptDone(a)
	}
}
