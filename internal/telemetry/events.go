package telemetry

import "github.com/prometheus/client_golang/prometheus"

// WatchEvents registers a function that every scrape calls for the number of dropped events. Call it once.
func (m *Metrics) WatchEvents(dropped func() uint64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "bardo_events_dropped_total", Help: "Events that telemetry.events was too slow for.",
	}, func() float64 { return float64(dropped()) }))
}

// WatchBodies registers a function that every scrape calls for the memory of requests' bodies. Call it once.
func (m *Metrics) WatchBodies(bytes func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bardo_request_body_bytes", Help: "Memory of the bodies of requests under way.",
	}, func() float64 { return float64(bytes()) }))
}
