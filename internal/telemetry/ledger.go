package telemetry

import "github.com/prometheus/client_golang/prometheus"

// WatchLedger has it read at every scrape whether the ledger can be written, and how many charges wait for that. Call it once.
func (m *Metrics) WatchLedger(read func() (writable bool, unwritten int)) {
	m.registry.MustRegister(ledger(read))
}

type ledger func() (writable bool, unwritten int)

var (
	ledgerWritable  = prometheus.NewDesc("bardo_ledger_writable", "1 while the ledger can be written, else 0.", nil, nil)
	ledgerUnwritten = prometheus.NewDesc("bardo_ledger_unwritten_charges", "Charges that wait until the ledger can be written.", nil, nil)
)

// Describe implements prometheus.Collector.
func (ledger) Describe(ch chan<- *prometheus.Desc) {
	ch <- ledgerWritable
	ch <- ledgerUnwritten
}

// Collect implements prometheus.Collector.
func (l ledger) Collect(ch chan<- prometheus.Metric) {
	writable, unwritten := l()
	value := 0.0
	if writable {
		value = 1
	}
	ch <- prometheus.MustNewConstMetric(ledgerWritable, prometheus.GaugeValue, value)
	ch <- prometheus.MustNewConstMetric(ledgerUnwritten, prometheus.GaugeValue, float64(unwritten))
}
