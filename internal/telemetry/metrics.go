// Package telemetry has the gateway's metrics for Prometheus and a log that cannot show secrets. It accepts only numbers and bounded names: no
// prompt, no answer and no key can be counted or logged through it. It does not know callers or how requests are served.
package telemetry

import (
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Other replaces names without a series of their own, above all model names that clients invent.
const Other = "other"

// Build identifies the running program.
type Build struct{ Version, Revision string }

// Metrics are the gateway's metrics, in their own registry. Names of the OpenTelemetry semantic conventions for generative AI are used where one
// exists, bardo_ names otherwise. Safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	models   atomic.Pointer[map[string]string]
	holds    atomic.Pointer[func() (open int, held int64)]
	answers  atomic.Pointer[func() (entries, bytes int64)]

	client client
	money  money
	local  localModels
	saved  layerSavings
	knobs  *prometheus.CounterVec

	exportsOnce       sync.Once // creates exports
	notificationsOnce sync.Once // creates notifications
	notifications     *Notifications
	rowsOnce          sync.Once // creates rows
	rows              *Rows
	exports           *Exports

	semantic semanticCache
	limits   limitCounts

	requests       *prometheus.CounterVec
	byStatus       handles[status, prometheus.Counter]
	series         handles[served, *series]
	attempts       *prometheus.CounterVec
	failovers      *prometheus.CounterVec
	calls          handles[call, ended]
	overhead       prometheus.Histogram
	layers         *prometheus.HistogramVec
	byLayer        handles[string, prometheus.Observer]
	layerCalls     *prometheus.CounterVec
	cache          [len(cacheNames)]prometheus.Counter
	exchanges      prometheus.Gauge
	streams        prometheus.Gauge
	commits        prometheus.Histogram
	batches        prometheus.Histogram
	healthy        *prometheus.GaugeVec
	capped         *prometheus.CounterVec
	hedges         *prometheus.CounterVec
	rules          *prometheus.CounterVec
	mcp            *prometheus.HistogramVec
	panics         prometheus.Counter
	held           prometheus.Counter
	refused        prometheus.Counter
	injected       *prometheus.CounterVec
	secondVerdicts *prometheus.CounterVec
	prompts        *prometheus.CounterVec
}

// client are the histograms of the semantic conventions.
type client struct {
	tokens     *prometheus.HistogramVec
	request    *prometheus.HistogramVec
	call       *prometheus.HistogramVec
	firstToken *prometheus.HistogramVec
	perToken   *prometheus.HistogramVec
}

// money are the counters of tokens and cost by provider and model.
type money struct {
	tokens  *prometheus.CounterVec
	cost    *prometheus.CounterVec
	charged *prometheus.CounterVec
}

// Buckets, as recommended by the semantic conventions.
var (
	tokenBuckets      = prometheus.ExponentialBuckets(1, 4, 12) // to 4,194,304, beyond the largest window
	secondBuckets     = prometheus.ExponentialBuckets(0.01, 2, 14)
	firstTokenBuckets = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
	perTokenBuckets   = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5}
	shortBuckets      = prometheus.ExponentialBuckets(10e-6, 2.5, 12) // 10 µs to 0.24 s
)

// New returns the metrics of a program.
func New(b Build) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	const operation, provider, model, kind = "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"
	m.client = client{
		tokens:     m.histograms("gen_ai_client_token_usage", "Input and output tokens of a request.", tokenBuckets, operation, provider, model, "gen_ai_token_type"),
		request:    m.histograms("gen_ai_server_request_duration_seconds", "Time to answer a client's request.", secondBuckets, operation, provider, model, kind),
		call:       m.histograms("gen_ai_client_operation_duration_seconds", "Time of one attempt at a provider.", secondBuckets, operation, provider, model, kind),
		firstToken: m.histograms("gen_ai_server_time_to_first_token_seconds", "Time to the first content of a stream.", firstTokenBuckets, operation, provider, model),
		perToken:   m.histograms("gen_ai_server_time_per_output_token_seconds", "Time per output token of a stream after the first.", perTokenBuckets, operation, provider, model),
	}
	m.money = money{
		tokens:  m.counters("bardo_tokens_total", "Tokens by type; reasoning is part of output.", "provider", "model", "type"),
		cost:    m.counters("bardo_provider_cost_micro_usd_total", "What providers asked, in millionths of a dollar.", "provider", "model"),
		charged: m.counters("bardo_charged_micro_usd_total", "What callers were charged, in millionths of a dollar.", "provider", "model"),
	}
	m.requests = m.counters("bardo_requests_total", "Client requests by HTTP status and error code.", "status", "code")
	m.attempts = m.counters("bardo_attempts_total", "Attempts at providers by how they ended.", "provider", "outcome")
	m.failovers = m.counters("bardo_failovers_total", "Attempts that were followed by one at the next provider, by why.", "provider", "reason")
	m.overhead = m.histogram("bardo_overhead_seconds", "Time from a complete request to the first attempt's departure.", shortBuckets)
	m.layers = m.histograms("bardo_layer_duration_seconds", "Time of one pipeline layer on a request.", shortBuckets, "layer")
	m.layerCalls = m.counters("bardo_layer_calls_total", "Calls of a layer's own tools that were answered inside the gateway.", "layer")
	m.exchanges = m.gauge("bardo_active_exchanges", "Requests under way.")
	m.streams = m.gauge("bardo_extproc_streams", "Open ext_proc streams.")
	m.commits = m.histogram("bardo_ledger_commit_seconds", "Time of one commit of the ledger.", shortBuckets)
	m.batches = m.histogram("bardo_ledger_commit_operations", "Operations in one commit of the ledger.", prometheus.ExponentialBuckets(1, 2, 10))
	m.healthy = register(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "bardo_provider_healthy", Help: "1 while a provider is fit to be used, else 0."}, []string{"provider"}))
	m.panics = register(m, prometheus.NewCounter(prometheus.CounterOpts{Name: "bardo_panics_total", Help: "Requests that ended in a fault of the program."}))
	m.held = register(m, prometheus.NewCounter(prometheus.CounterOpts{Name: "bardo_worker_holds_total", Help: "Times that one request held a thread which serves one of Envoy's workers for longer than 10 ms."}))
	m.refused = register(m, prometheus.NewCounter(prometheus.CounterOpts{Name: "bardo_admin_refused_total", Help: "Requests to the admin API that came without its token."}))
	m.capped = m.counters("bardo_usage_capped_total", "Calls whose provider reported more usage than a call can have.", "provider")
	m.hedges = m.counters("bardo_hedges_total", "Requests whose first candidate was slow, by what became of the second: won, lost, failed, no_share or no_money.", "outcome")
	m.rules = m.counters("bardo_rule_decisions_total", "Decisions of the tool firewall and of guardrails, by rule or hook.", "by", "rule", "decision", "reason", "shadow")
	m.mcp = m.histograms("bardo_mcp_request_duration_seconds", "Time of one request to an MCP server.", secondBuckets, "server", "method", "result")
	m.local = newLocalModels(m)
	m.semantic = newSemanticCache(m)
	m.limits = newLimitCounts(m)
	m.injected = m.counters("bardo_injection_texts_total", "Texts that were judged for instructions to the model, by source and verdict.", "source", "verdict")
	m.saved = newLayerSavings(m)
	m.knobs = m.counters("bardo_governor_changes_total", "Settings of layers that the governor changed, or would change if it were on.", "knob", "applied")
	m.secondVerdicts = m.counters("bardo_injection_second_opinions_total", "Doubtful texts that a second model scored: agrees, disagrees or unscored.", "source", "opinion")
	m.prompts = m.counters("bardo_prompt_log_total", "Requests whose prompts and answers were to be logged: written, or dropped and why.", "result")
	cache := m.counters("bardo_cache_requests_total", "Requests by what the cache knew.", "result")
	for i, name := range cacheNames {
		m.cache[i] = cache.WithLabelValues(name)
	}
	m.registry.MustRegister(holds{m}, answers{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	build := register(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "bardo_build_info", Help: "Which program runs; always 1."}, []string{"version", "revision", "go_version"}))
	build.WithLabelValues(b.Version, b.Revision, runtime.Version()).Set(1)
	return m
}

// Handler serves the metrics in the format that Prometheus requests.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// SetModels sets the models that have series of their own. Before it is called, none has.
func (m *Metrics) SetModels(ids []string) {
	known := make(map[string]string, len(ids))
	for _, id := range ids {
		known[id] = id
	}
	m.models.Store(&known)
}

// model returns the label of a model: its own name if it is known, in the catalog's memory and not the request's.
func (m *Metrics) model(id string) string {
	if id == "" {
		return ""
	}
	if known := m.models.Load(); known != nil {
		if name, ok := (*known)[id]; ok {
			return name
		}
	}
	return Other
}

// ExchangeStarted and ExchangeEnded count the requests in flight.
func (m *Metrics) ExchangeStarted() { m.exchanges.Inc() }

// ExchangeEnded is the counterpart of ExchangeStarted.
func (m *Metrics) ExchangeEnded() { m.exchanges.Dec() }

// StreamOpened and StreamClosed count the ext_proc streams.
func (m *Metrics) StreamOpened() { m.streams.Inc() }

// StreamClosed is the counterpart of StreamOpened.
func (m *Metrics) StreamClosed() { m.streams.Dec() }

// LayerDone records the time of a pipeline layer on a request.
func (m *Metrics) LayerDone(layer string, took time.Duration) {
	o, ok := m.byLayer.get(layer)
	if !ok {
		o = m.byLayer.put(layer, m.layers.WithLabelValues(layer))
	}
	o.Observe(took.Seconds())
}

// LayerCalled counts a call of a layer's own tools that was answered inside the gateway. For layer l5 this is a text that was left out, and fetched
// again.
func (m *Metrics) LayerCalled(layer string) { m.layerCalls.WithLabelValues(layer).Inc() }

// LedgerCommitted counts one commit of the ledger and the operations in it.
func (m *Metrics) LedgerCommitted(took time.Duration, operations int) {
	m.commits.Observe(took.Seconds())
	m.batches.Observe(float64(operations))
}

// WatchHolds registers a function that every scrape calls: the number of open holds and their sum in micro-dollars.
func (m *Metrics) WatchHolds(read func() (open int, held int64)) { m.holds.Store(&read) }

// WatchCache registers a function that every scrape calls: the number of cached answers and their bytes.
func (m *Metrics) WatchCache(read func() (entries, bytes int64)) { m.answers.Store(&read) }

// UsageCapped counts a call whose provider reported an impossibly high usage.
func (m *Metrics) UsageCapped(provider string) { m.capped.WithLabelValues(provider).Inc() }

// Hedged counts a request whose first candidate was slow, by what became of the second: one of the outcomes of record.Hedge.
func (m *Metrics) Hedged(outcome string) { m.hedges.WithLabelValues(outcome).Inc() }

// RuleDecided counts a decision of the operator's rules. A hook's own reason counts as Other, so that the number of series stays bounded.
func (m *Metrics) RuleDecided(by, rule, decision, reason string, shadow bool) {
	if reason != "" && !ruleReasons[reason] {
		reason = Other
	}
	m.rules.WithLabelValues(by, rule, decision, reason, strconv.FormatBool(shadow)).Inc()
}

// MCPRequest records a request to an MCP server, by its method and result, which are from bounded sets.
func (m *Metrics) MCPRequest(server, method, result string, took time.Duration) {
	m.mcp.WithLabelValues(server, method, result).Observe(took.Seconds())
}

// ruleReasons are the reasons that have series of their own.
var ruleReasons = map[string]bool{
	"denied": true, "not_allowed": true, "not_offered": true, "arguments": true, "schema": true, "condition": true, "condition_failed": true,
	"invalid_arguments": true, "too_large": true, "private": true, "timeout": true, "unreachable": true, "bad_status": true, "bad_answer": true,
	"bad_replacement": true, "answer_too_large": true, "broken_off": true, "unwritable": true, "private_key": true, "unread": true,
}

// Panicked counts a request that ended in a panic.
func (m *Metrics) Panicked() { m.panics.Inc() }

// Held counts a request that blocked a shared thread.
func (m *Metrics) Held() { m.held.Inc() }

// AdminRefused counts a request to the admin API without its token.
func (m *Metrics) AdminRefused() { m.refused.Inc() }

// ProviderHealth sets whether a provider is healthy.
func (m *Metrics) ProviderHealth(provider string, healthy bool) {
	value := 0.0
	if healthy {
		value = 1
	}
	m.healthy.WithLabelValues(provider).Set(value)
}

// ProviderRemoved removes the health of a provider that is no longer configured.
func (m *Metrics) ProviderRemoved(provider string) { m.healthy.DeleteLabelValues(provider) }

// Cache is a request's cache result.
type Cache uint8

// The cache results.
const (
	CacheMiss Cache = iota
	CacheHash
	CacheSemantic
	CacheStale
	CacheCoalesced
)

var cacheNames = [...]string{CacheMiss: "miss", CacheHash: "hash", CacheSemantic: "semantic", CacheStale: "stale", CacheCoalesced: "coalesced"}

// CacheLookup counts a cache lookup.
func (m *Metrics) CacheLookup(c Cache) {
	if int(c) < len(m.cache) {
		m.cache[c].Inc()
	}
}
