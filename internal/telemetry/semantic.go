package telemetry

import "github.com/prometheus/client_golang/prometheus"

// semanticCache are the metrics of the semantic cache.
type semanticCache struct {
	questions *prometheus.CounterVec
}

func newSemanticCache(m *Metrics) semanticCache {
	return semanticCache{
		questions: m.counters("bardo_semantic_cache_questions_total", "Questions that the semantic cache looked for, by what came of it.", "result"),
	}
}

// QuestionAsked counts a look into the semantic cache. The result is one of a closed set.
func (m *Metrics) QuestionAsked(result string) { m.semantic.questions.WithLabelValues(result).Inc() }

// WatchQuestions has the questions of the semantic cache, read at every scrape.
func (m *Metrics) WatchQuestions(read func() int) {
	m.registry.MustRegister(scraped{
		[]sample{gauge("bardo_semantic_cache_entries", "Questions whose answers the semantic cache can serve.")},
		func() []float64 { return []float64{float64(read())} },
	})
}
