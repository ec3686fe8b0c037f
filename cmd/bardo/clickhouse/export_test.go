package clickhouse

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/cmd/bardo/run/export"
	"bardo.money/gateway/internal/config"
)

// TestTheExportPausesAfterFailuresInARow: longer after each, up to a minute, and from the beginning after progress. Another configuration is tried immediately.
func TestTheExportPausesAfterFailuresInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cfg atomic.Pointer[config.Config]
		other := func() {
			c := &config.Config{}
			c.Telemetry.ClickHouse.Host = "clickhouse.example"
			cfg.Store(c)
		}
		other()
		var log bytes.Buffer
		o := &export.UsageOptions{
			Config: cfg.Load, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Redact: func(s string) string { return strings.ReplaceAll(s, "secret", "***") },
		}
		ctx, stop := context.WithCancel(t.Context())
		var pauses []time.Duration
		last := time.Now()
		err := repeat(ctx, o, "usage was", func(*config.Config) (worked bool, err error) {
			pauses = append(pauses, time.Since(last))
			last = time.Now()
			switch len(pauses) {
			case 9:
				worked = true
			case 11:
				time.AfterFunc(1500*time.Millisecond, other)
			case 12:
				stop()
			}
			return worked, errors.New("a secret")
		})
		var want []time.Duration
		for _, s := range []int{0, 2, 4, 8, 16, 32, 60, 60, 60, 2, 4, 2} {
			want = append(want, time.Duration(s)*time.Second)
		}
		if err != nil || !slices.Equal(pauses, want) {
			t.Errorf("%v, pauses %v, want %v", err, pauses, want)
		}
		if text := log.String(); strings.Contains(text, "secret") || strings.Count(text, "usage was not exported to ClickHouse") != 11 {
			t.Errorf("the log is %s", text)
		}
	})
}
