package telemetry

import "github.com/prometheus/client_golang/prometheus"

// WatchConfig registers a function that every scrape calls: failed reports that the last reload failed, or that an Envoy refuses the current
// configuration. Call it once.
func (m *Metrics) WatchConfig(failed func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bardo_config_failed", Help: "1 while the configuration last read is not in force, or not in every Envoy, else 0.",
	}, func() float64 {
		if failed() {
			return 1
		}
		return 0
	}))
}
