package telemetry

import "github.com/prometheus/client_golang/prometheus"

// limitCounts are the metrics of limits that gateways share.
type limitCounts struct{ decided *prometheus.CounterVec }

func newLimitCounts(m *Metrics) limitCounts {
	return limitCounts{m.counters("bardo_shared_limits_checks_total", "Checks of limits that gateways share, by who decided: shared for all gateways, alone while the store is away, or nobody, so that the request was refused.", "decided")}
}

// LimitDecided counts a check of shared limits, by the deciding party, one of a closed set.
func (m *Metrics) LimitDecided(by string) { m.limits.decided.WithLabelValues(by).Inc() }

// WatchLimits registers a function that every scrape calls: whether the store of limits answers.
func (m *Metrics) WatchLimits(read func() bool) {
	m.registry.MustRegister(scraped{
		[]sample{gauge("bardo_shared_limits_up", "1 while the store of limits that gateways share answers in time, else 0.")},
		func() []float64 {
			if read() {
				return []float64{1}
			}
			return []float64{0}
		},
	})
}
