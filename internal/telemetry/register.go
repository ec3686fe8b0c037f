package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// register adds a collector to the registry. It panics on a duplicate name, which is a programming error.
func register[C prometheus.Collector](m *Metrics, c C) C {
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	return register(m, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return register(m, prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}))
}

func (m *Metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
}

// handles finds the metrics of a key without a lock and without hashing label by label. Keys must be few and bounded; a new one copies the map. The
// zero value is empty. Safe for concurrent use.
type handles[K comparable, V any] struct {
	mu  sync.Mutex
	now atomic.Pointer[map[K]V]
}

func (h *handles[K, V]) get(k K) (v V, ok bool) {
	if m := h.now.Load(); m != nil {
		v, ok = (*m)[k]
	}
	return v, ok
}

// put adds v under k, unless there is a value, and returns the stored value.
func (h *handles[K, V]) put(k K, v V) V {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old, ok := h.get(k); ok {
		return old
	}
	next := map[K]V{k: v}
	if m := h.now.Load(); m != nil {
		maps.Copy(next, *m)
	}
	h.now.Store(&next)
	return v
}

func (h *handles[K, V]) len() int {
	if m := h.now.Load(); m != nil {
		return len(*m)
	}
	return 0
}

// holds collects the ledger's open holds at each scrape.
type holds struct{ m *Metrics }

var (
	openHolds = prometheus.NewDesc("bardo_holds", "Open reservations of the ledger.", nil, nil)
	heldMicro = prometheus.NewDesc("bardo_held_micro_usd", "What open reservations hold, in millionths of a dollar.", nil, nil)
)

// Describe implements prometheus.Collector.
func (holds) Describe(ch chan<- *prometheus.Desc) {
	ch <- openHolds
	ch <- heldMicro
}

// Collect implements prometheus.Collector.
func (h holds) Collect(ch chan<- prometheus.Metric) {
	read := h.m.holds.Load()
	if read == nil {
		return
	}
	open, held := (*read)()
	ch <- prometheus.MustNewConstMetric(openHolds, prometheus.GaugeValue, float64(open))
	ch <- prometheus.MustNewConstMetric(heldMicro, prometheus.GaugeValue, float64(held))
}

// answers collects the cache's size at each scrape.
type answers struct{ m *Metrics }

var (
	cacheEntries = prometheus.NewDesc("bardo_cache_entries", "Answers in the cache.", nil, nil)
	cacheBytes   = prometheus.NewDesc("bardo_cache_bytes", "Memory of the answers in the cache.", nil, nil)
)

// Describe implements prometheus.Collector.
func (answers) Describe(ch chan<- *prometheus.Desc) {
	ch <- cacheEntries
	ch <- cacheBytes
}

// Collect implements prometheus.Collector.
func (a answers) Collect(ch chan<- prometheus.Metric) {
	read := a.m.answers.Load()
	if read == nil {
		return
	}
	entries, bytes := (*read)()
	ch <- prometheus.MustNewConstMetric(cacheEntries, prometheus.GaugeValue, float64(entries))
	ch <- prometheus.MustNewConstMetric(cacheBytes, prometheus.GaugeValue, float64(bytes))
}
