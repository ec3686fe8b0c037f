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

func TestTheProcessIsWatched(t *testing.T) {
	m := New(Build{Version: "v"})
	m.WatchTasks(func() int64 { return 3 })
	m.Held()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if got := w.Body.String(); !strings.Contains(got, "bardo_task_panics_total 3\n") || !strings.Contains(got, "bardo_worker_holds_total 1\n") {
		t.Error(got)
	}
}

func TestTheMemoryOfBodiesIsRead(t *testing.T) {
	m := New(Build{Version: "v"})
	m.WatchBodies(func() int64 { return 65536 })
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if !strings.Contains(w.Body.String(), "bardo_request_body_bytes 65536") {
		t.Error(w.Body.String())
	}
}
