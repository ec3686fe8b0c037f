// Package export says what an exporter of telemetry is, and keeps one as the configuration wants it. It does not know how anything is sent: package otlp
// does, which the program bardo alone contains.
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

// Opener makes an exporter. It does not call the receiver yet.
type Opener func(ctx context.Context, o *Options) (Exporter, error)

// Exporter sends telemetry to a receiver.
type Exporter interface {
	// Take takes a finished request. It may wait while the receiver is slow.
	Take(f *record.Finished)
	// Close sends what waits, and stops.
	Close(ctx context.Context) error
}

// Options are what an exporter is made of.
type Options struct {
	Telemetry *config.Telemetry
	Version   string                // of the program
	Instance  string                // which gateway it is
	Redact    func(s string) string // removes secrets
	Metrics   prometheus.Gatherer   // the gateway's, those of Envoy's process included
	Counts    func() *telemetry.Exports
	Log       *slog.Logger
}

// Spool is the directory of the state that keeps events until they are exported with usage.
const Spool = "events"

// KeepEvents has a sink keep its events for their export, if the configuration wants that. writer names the process.
func KeepEvents(s *event.Sink, h home.Dir, t *config.Telemetry, writer string) error {
	dir := ""
	if t.ExportsEvents() {
		dir = h.Path(Spool)
	}
	return s.SpoolTo(dir, writer)
}

// UsageOptions are what usage is exported with.
type UsageOptions struct {
	Home    home.Dir
	Config  func() *config.Config // the one in force
	Redact  func(s string) string // removes secrets
	Metrics *telemetry.Metrics
	Log     *slog.Logger
}

// Pause waits for a time, or until another configuration than cfg is in force, which it looks for each second. It is false where ctx is done.
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

// Run exports what the configuration in force says until ctx is done, and nothing without a receiver. o is without Telemetry.
func Run(ctx context.Context, open Opener, source relay.Source[record.Finished], cfg func() *config.Config, o *Options) error {
	r := relay.Runner[record.Finished]{Key: "telemetry.otlp", Source: source, Config: cfg, Log: o.Log, Lost: func(n uint64) { o.Counts().Lost(n) }}
	r.Open = func(ctx context.Context, cfg *config.Config) (relay.Taker[record.Finished], error) {
		if cfg.Telemetry.OTLP.Host == "" {
			return nil, nil //nolint:nilnil // nothing is sent
		}
		of := *o
		of.Telemetry = &cfg.Telemetry
		return open(ctx, &of)
	}
	return r.Run(ctx)
}
