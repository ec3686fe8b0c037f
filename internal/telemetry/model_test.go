package telemetry

import (
	"testing"
	"time"
)

func TestLocalModelsAreCounted(t *testing.T) {
	m := newMetrics()
	m.ModelQueued("minilm", 3)
	m.ModelWaited("minilm", time.Second)
	m.ModelRan("minilm", 2, 2*time.Second)
	m.ModelRefused("minilm", "full")
	wantLines(t, scrape(t, m),
		`bardo_local_model_queue{model="minilm"} 3`,
		`bardo_local_model_texts_total{model="minilm"} 2`,
		`bardo_local_model_run_seconds_sum{model="minilm"} 2`,
		`bardo_local_model_wait_seconds_sum{model="minilm"} 1`,
		`bardo_local_model_refused_total{model="minilm",reason="full"} 1`,
	)
}
