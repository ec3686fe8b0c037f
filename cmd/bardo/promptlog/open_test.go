package promptlog

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/prompts"
	"bardo.money/gateway/internal/secret"
)

// TestAReceiverThatHangsDoesNotDelayTheFile, and unsent entries are counted separately.
func TestAReceiverThatHangsDoesNotDelayTheFile(t *testing.T) {
	t.Parallel()
	called, answer := make(chan struct{}, 10), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		called <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(s.Close)
	cfg := &config.Config{}
	cfg.Telemetry.Prompts = config.Prompts{
		Keys: []string{"k1"}, File: "prompts.db", Secret: secret.New("s"), MaxAge: time.Hour, MaxBytes: 1 << 20,
		OTLP: config.URL{Scheme: "http", Host: strings.TrimPrefix(s.URL, "http://")},
	}
	var unsent atomic.Int64
	home := t.TempDir()
	sinks, err := Open(t.Context(), cfg, &Options{Home: home, Logger: slog.New(slog.DiscardHandler), Count: func(result string, n int) {
		if result == prompts.Unsent {
			unsent.Add(int64(n))
		}
	}})
	if err != nil || len(sinks) != 2 {
		t.Fatalf("%d, %v", len(sinks), err)
	}
	for range 3 {
		for _, at := range sinks {
			if err := at.Write(t.Context(), []*prompts.Entry{{At: time.Now(), RequestID: "req_1"}}); err != nil {
				t.Fatal(err)
			}
		}
		polltest.Until(t, "the call that hangs", func() bool { return len(called) == 1 })
	}
	n := 0
	err = prompts.Read(t.Context(), filepath.Join(home, "prompts.db"), "s", time.Time{}, func(*prompts.Entry) error { n++; return nil })
	if err != nil || n != 3 {
		t.Errorf("the file has %d of 3, %v", n, err)
	}
	close(answer)
	for _, at := range sinks {
		if err := at.Close(); err != nil {
			t.Error(err)
		}
	}
	if unsent.Load() != 3 {
		t.Errorf("%d of 3 were counted that the receiver refused", unsent.Load())
	}
}
