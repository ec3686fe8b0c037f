package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// localModels are the metrics of local models.
type localModels struct {
	waiting *prometheus.GaugeVec
	inputs  *prometheus.CounterVec
	run     *prometheus.HistogramVec
	wait    *prometheus.HistogramVec
	refused *prometheus.CounterVec
}

// runBuckets range from a short text's time to that of the largest models.
var runBuckets = prometheus.ExponentialBuckets(0.0005, 2, 13) // 0.5 ms to 2 s

func newLocalModels(m *Metrics) localModels {
	return localModels{
		waiting: register(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "bardo_local_model_queue", Help: "Texts that wait for a local model."}, []string{"model"})),
		inputs:  m.counters("bardo_local_model_texts_total", "Texts, or windows of texts, that a local model was run on.", "model"),
		run:     m.histograms("bardo_local_model_run_seconds", "Time of one run of a local model, on one text or several of one length.", runBuckets, "model"),
		wait:    m.histograms("bardo_local_model_wait_seconds", "Time that a text waited for a local model.", runBuckets, "model"),
		refused: m.counters("bardo_local_model_refused_total", "Texts that a local model was not run on, since its queue was full or the time was over.", "model", "reason"),
	}
}

// ModelQueued sets how many texts wait for a local model.
func (m *Metrics) ModelQueued(model string, waiting int) {
	m.local.waiting.WithLabelValues(model).Set(float64(waiting))
}

// ModelRan counts a run of a local model.
func (m *Metrics) ModelRan(model string, inputs int, took time.Duration) {
	m.local.inputs.WithLabelValues(model).Add(float64(inputs))
	m.local.run.WithLabelValues(model).Observe(took.Seconds())
}

// ModelWaited records how long a text waited for a local model.
func (m *Metrics) ModelWaited(model string, wait time.Duration) {
	m.local.wait.WithLabelValues(model).Observe(wait.Seconds())
}

// ModelRefused counts a text that a local model did not process: full or deadline.
func (m *Metrics) ModelRefused(model, reason string) {
	m.local.refused.WithLabelValues(model, reason).Inc()
}
