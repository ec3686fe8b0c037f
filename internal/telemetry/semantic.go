package telemetry

import "github.com/prometheus/client_golang/prometheus"

// semanticCache are the metrics of the semantic cache.
type semanticCache struct {
	questions *prometheus.CounterVec
	lost      prometheus.Counter // stored answers
}

func newSemanticCache(m *Metrics) semanticCache {
	return semanticCache{
		questions: m.counters("bardo_semantic_cache_questions_total", "Questions that the semantic cache looked for, by what came of it.", "result"),
		lost:      register(m, prometheus.NewCounter(prometheus.CounterOpts{Name: "bardo_cache_unwritten_total", Help: "Stored answers that were not written to the disk."})),
	}
}

// QuestionAsked counts a look into the semantic cache. The result is one of a closed set.
func (m *Metrics) QuestionAsked(result string) { m.semantic.questions.WithLabelValues(result).Inc() }

// AnswersUnwritten counts stored answers that were not written to the disk.
func (m *Metrics) AnswersUnwritten(n int) { m.semantic.lost.Add(float64(n)) }

// WatchQuestions has the questions of the semantic cache, read at every scrape.
func (m *Metrics) WatchQuestions(read func() int) {
	m.registry.MustRegister(scraped{
		[]sample{gauge("bardo_semantic_cache_entries", "Questions whose answers the semantic cache can serve.")},
		func() []float64 { return []float64{float64(read())} },
	})
}
