// Package export defines exporters of telemetry, and runs one as configured. It does not know protocols: package otlp, which only the program bardo contains,
// does.
package export

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/run/relay"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/telemetry"
)

// Opener creates an exporter. It does not connect to the receiver yet.
type Opener func(ctx context.Context, o *Options) (Exporter, error)

// Exporter sends telemetry to a receiver.
type Exporter interface {
	// Take enqueues a finished request. It may block while the receiver is slow.
	Take(f *record.Finished)
	// Close sends what is queued, and stops.
	Close(ctx context.Context) error
}

// Options configure an exporter.
type Options struct {
	Telemetry *config.Telemetry
	Version   string                // of the program
	Instance  string                // identifies the gateway process
	Redact    func(s string) string // removes secrets
	Metrics   prometheus.Gatherer   // the gateway's, including those of Envoy's process
	Counts    func() *telemetry.Exports
	Log       *slog.Logger
}

// Spool is the directory, in the state directory, of events that wait to be exported with usage.
const Spool = "events"

// KeepEvents makes a sink spool its events for export, if configured. writer names the process.
func KeepEvents(s *event.Sink, h home.Dir, t *config.Telemetry, writer string) error {
	dir := ""
	if t.ExportsEvents() {
		dir = h.Path(Spool)
	}
	return s.SpoolTo(dir, writer)
}

// UsageOptions configure the export of usage.
type UsageOptions struct {
	Home    home.Dir
	Config  func() *config.Config // in force
	Redact  func(s string) string // removes secrets
	Metrics *telemetry.Metrics
	Log     *slog.Logger
}

// Pause waits for d, or until a configuration other than cfg is in force, which it checks each second. It returns false if ctx is done.
func (o *UsageOptions) Pause(ctx context.Context, d time.Duration, cfg *config.Config) bool {
	for end := time.Now().Add(d); time.Now().Before(end) && o.Config() == cfg; {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(time.Second, d)):
		}
	}
	return ctx.Err() == nil
}

// Run exports to the receiver of the configuration in force, if there is one, until ctx is done. o.Telemetry is ignored.
func Run(ctx context.Context, open Opener, source relay.Source[record.Finished], cfg func() *config.Config, o *Options) error {
	r := relay.Runner[record.Finished]{Key: "telemetry.otlp", Source: source, Config: cfg, Log: o.Log, Dropped: func(n uint64) { o.Counts().Lost(n) }}
	r.Open = func(ctx context.Context, cfg *config.Config) (relay.Sink[record.Finished], error) {
		if cfg.Telemetry.OTLP.Host == "" {
			return nil, nil //nolint:nilnil // no receiver
		}
		of := *o
		of.Telemetry = &cfg.Telemetry
		return open(ctx, &of)
	}
	return r.Run(ctx)
}
