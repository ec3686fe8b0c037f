package telemetry

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestLostEventsAreCounted(t *testing.T) {
	m := New(Build{Version: "v"})
	m.WatchEvents(func() uint64 { return 7 })
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if !strings.Contains(w.Body.String(), "bardo_events_dropped_total 7") {
		t.Error(w.Body.String())
	}
}
