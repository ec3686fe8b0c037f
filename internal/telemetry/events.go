package telemetry

import "github.com/prometheus/client_golang/prometheus"

const taskPanics = "bardo_task_panics_total"

// WatchEvents registers a function that every scrape calls for the number of dropped events. Call it once.
func (m *Metrics) WatchEvents(dropped func() uint64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "bardo_events_dropped_total", Help: "Events that telemetry.events was too slow for, or that were kept too long for ClickHouse.",
	}, func() float64 { return float64(dropped()) }))
}

// WatchTasks registers a function that every scrape calls for the number of panics outside requests. Call it once.
func (m *Metrics) WatchTasks(panics func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: taskPanics, Help: "Tasks beside requests that ended in a fault of the program.",
	}, func() float64 { return float64(panics()) }))
}

// WatchBodies registers a function that every scrape calls for the memory of request bodies. Call it once.
func (m *Metrics) WatchBodies(bytes func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bardo_request_body_bytes", Help: "Memory of the bodies of requests under way.",
	}, func() float64 { return float64(bytes()) }))
}

// WatchPayments registers a function that every scrape calls for the payments to providers for unanswered calls, in millionths of a USD. Call it
// once.
func (m *Metrics) WatchPayments(atRisk func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bardo_payments_at_risk_micro_usd", Help: "Payments to providers of which it is not known whether they were taken.",
	}, func() float64 { return float64(atRisk()) }))
}

// WatchLosses registers a function that every scrape calls for the cost of the last hour's requests whose payments did not arrive, in millionths of a
// USD, and for whether payments are therefore settled first. Call it once.
func (m *Metrics) WatchLosses(losses func() (lost int64, bound bool)) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bardo_payment_losses_micro_usd", Help: "What requests of the last hour have cost whose payments did not arrive.",
	}, func() float64 { lost, _ := losses(); return float64(lost) }))
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bardo_payment_losses_bound", Help: "1 while payments are settled before their requests are served, since too many did not arrive.",
	}, func() float64 {
		if _, bound := losses(); bound {
			return 1
		}
		return 0
	}))
}
