package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Exports count a telemetry exporter's output. They exist only in a process that exports: if two processes have the same metrics, those of the other
// process are shown.
type Exports struct {
	spans *prometheus.CounterVec
	lost  prometheus.Counter
}

// Exports returns the counters of exports, created at the first call.
func (m *Metrics) Exports() *Exports {
	m.exportsOnce.Do(func() {
		m.exports = &Exports{
			spans: m.counters("bardo_otlp_spans_total", "Spans that were sent to the receiver of telemetry, or could not be.", "result"),
			lost: register(m, prometheus.NewCounter(prometheus.CounterOpts{
				Name: "bardo_otlp_lost_requests_total", Help: "Requests without a trace, since the receiver of telemetry was too slow.",
			})),
		}
	})
	return m.exports
}

// Sent counts an export of spans.
func (e *Exports) Sent(spans int, err error) {
	result := "sent"
	if err != nil {
		result = "failed"
	}
	e.spans.WithLabelValues(result).Add(float64(spans))
}

// Lost counts requests that were dropped before they were exported.
func (e *Exports) Lost(n uint64) { e.lost.Add(float64(n)) }

// Gatherer gathers the metrics of this process, and those of the process that serves requests if scrape reads them; nil for none.
func (m *Metrics) Gatherer(scrape Scrape) prometheus.Gatherer {
	if scrape == nil {
		return m.registry
	}
	return m.with(scrape)
}
