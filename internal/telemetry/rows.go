package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Rows count rows exported to ClickHouse. They exist only in a process that exports, like Exports.
type Rows struct{ sent *prometheus.CounterVec }

// Rows returns the counters of exported rows, created at the first call.
func (m *Metrics) Rows() *Rows {
	m.rowsOnce.Do(func() {
		m.rows = &Rows{m.counters("bardo_clickhouse_rows_total", "Rows of requests and of events that were exported to ClickHouse, or could not be and will be tried again.", "result")}
	})
	return m.rows
}

// Count counts a batch.
func (r *Rows) Count(rows int, err error) {
	result := "sent"
	if err != nil {
		result = "failed"
	}
	r.sent.WithLabelValues(result).Add(float64(rows))
}
