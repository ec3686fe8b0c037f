package telemetry

import "github.com/prometheus/client_golang/prometheus"

// semanticCache are the metrics of the semantic cache.
type semanticCache struct {
	questions *prometheus.CounterVec
	unwritten prometheus.Counter // stored answers
	shared    *prometheus.CounterVec
	vectors   *prometheus.CounterVec
}

func newSemanticCache(m *Metrics) semanticCache {
	return semanticCache{
		questions: m.counters("bardo_semantic_cache_questions_total", "Questions that the semantic cache looked for, by what came of it.", "result"),
		unwritten: register(m, prometheus.NewCounter(prometheus.CounterOpts{Name: "bardo_cache_unwritten_total", Help: "Stored answers that were not written to the disk, or to Redis."})),
		shared:    m.counters("bardo_shared_cache_lookups_total", "Lookups in the store that gateways share, by what came of them.", "result"),
		vectors:   m.counters("bardo_kept_vectors_lookups_total", "Vectors that were looked up in the database of store.vectors, by what came of it.", "result"),
	}
}

// SemanticLookup counts a lookup in the semantic cache. The result is one of a closed set.
func (m *Metrics) SemanticLookup(result string) { m.semantic.questions.WithLabelValues(result).Inc() }

// AnswersUnwritten counts stored answers that were not written to the disk, or to Redis.
func (m *Metrics) AnswersUnwritten(n int) { m.semantic.unwritten.Add(float64(n)) }

// SharedLookup counts a lookup in the shared store. The result is one of a closed set.
func (m *Metrics) SharedLookup(result string) { m.semantic.shared.WithLabelValues(result).Inc() }

// VectorsLookedUp counts vectors that were looked up in the store of vectors. The result is one of a closed set.
func (m *Metrics) VectorsLookedUp(result string, n int) {
	m.semantic.vectors.WithLabelValues(result).Add(float64(n))
}

// WatchShared registers a function that every scrape calls: whether the shared store answers.
func (m *Metrics) WatchShared(read func() bool) {
	m.registry.MustRegister(scraped{
		[]sample{gauge("bardo_shared_cache_up", "1 while the store that gateways share answers in time, else 0.")},
		func() []float64 {
			if read() {
				return []float64{1}
			}
			return []float64{0}
		},
	})
}

// WatchQuestions registers a function that every scrape calls: the number of questions in the semantic cache.
func (m *Metrics) WatchQuestions(read func() int) {
	m.registry.MustRegister(scraped{
		[]sample{gauge("bardo_semantic_cache_entries", "Questions whose answers the semantic cache can serve.")},
		func() []float64 { return []float64{float64(read())} },
	})
}
