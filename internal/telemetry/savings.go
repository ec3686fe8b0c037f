package telemetry

import "github.com/prometheus/client_golang/prometheus"

// layerSavings are the counters of the savings of pipeline layers. A counter cannot decrease, so net costs of a layer have their own counter.
type layerSavings struct {
	tokens, saved, lost *prometheus.CounterVec
	byLayer             handles[string, *savedBy]
}

// savedBy are the counters of one layer.
type savedBy struct{ tokens, saved, lost prometheus.Counter }

func newLayerSavings(m *Metrics) layerSavings {
	return layerSavings{
		tokens: m.counters("bardo_layer_saved_tokens_total", "Tokens that were not billed because of a layer.", "layer"),
		saved:  m.counters("bardo_layer_saved_micro_usd_total", "What a layer saved, in millionths of a dollar.", "layer"),
		lost:   m.counters("bardo_layer_lost_micro_usd_total", "What a layer cost on requests where it cost more than it saved, in millionths of a dollar.", "layer"),
	}
}

// LayerSaved counts what a layer saved on a request, in millionths of a dollar; negative if it cost more than it saved.
func (m *Metrics) LayerSaved(layer string, tokens, micro int64) {
	s, ok := m.saved.byLayer.get(layer)
	if !ok {
		s = m.saved.byLayer.put(layer, &savedBy{m.saved.tokens.WithLabelValues(layer), m.saved.saved.WithLabelValues(layer), m.saved.lost.WithLabelValues(layer)})
	}
	add(s.tokens, float64(tokens))
	add(s.saved, float64(micro))
	add(s.lost, -float64(micro))
}
