package telemetry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// metricsOf returns a handler's answer to a scrape.
func metricsOf(t *testing.T, h http.Handler, accept string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestTheMetricsOfTwoProcessesAreMerged(t *testing.T) {
	own, serving := New(Build{Version: "own"}), New(Build{Version: "serving"})
	own.WatchConfig(func() bool { return true })
	serving.ExchangeStarted()
	for _, tt := range []struct {
		name   string
		scrape func(context.Context, string) (io.ReadCloser, error)
		want   []string
		no     string
	}{
		{
			"both", func(_ context.Context, accept string) (io.ReadCloser, error) {
				return metricsOf(t, serving.Handler(), accept).Body, nil
			},
			[]string{"bardo_active_exchanges 1\n", "bardo_config_failed 1\n", `version="own"`, `version="serving"`, "go_goroutines{process=\"envoy\"} "},
			"bardo_active_exchanges 0",
		},
		{
			"the other one is away", func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("away") },
			[]string{"bardo_active_exchanges 0\n", "bardo_config_failed 1\n", `version="own"`},
			`process="envoy"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := metricsOf(t, own.HandlerWith(tt.scrape), "text/plain")
			defer func() { _ = resp.Body.Close() }()
			b, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("status %d, %v", resp.StatusCode, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(b), want) {
					t.Errorf("%q is missing in\n%s", want, b)
				}
			}
			if strings.Contains(string(b), tt.no) {
				t.Errorf("%q is there in\n%s", tt.no, b)
			}
		})
	}
}
