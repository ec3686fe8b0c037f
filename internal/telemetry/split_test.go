package telemetry

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheNumbersOfASplitGateway(t *testing.T) {
	m := New(Build{})
	m.WatchControlPlane(func() ControlPlane { return ControlPlane{Nodes: 2, Feeds: 3, Pushes: 5, Rejections: 7, Results: 11} })
	m.WatchFeed(func() (bool, uint64) { return true, 13 })
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	for _, want := range []string{
		"bardo_xds_nodes 2", "bardo_xds_feed_streams 3", "bardo_xds_pushes_total 5", "bardo_xds_nacks_total 7", "bardo_xds_results_total 11",
		"bardo_feed_connected 1", "bardo_feed_dropped_results_total 13",
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("there is no %q", want)
		}
	}
}
