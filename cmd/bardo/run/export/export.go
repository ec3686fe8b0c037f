// Package export keeps an exporter of telemetry as the configuration wants it, and gives it the requests that finish here or in Envoy's process. It does not
// know how anything is sent: package otlp does, which the program bardo alone contains.
package export

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/telemetry"
)

// Opener makes an exporter. It does not call the receiver yet.
type Opener func(ctx context.Context, o *Options) (Exporter, error)

// Exporter sends telemetry to a receiver.
type Exporter interface {
	// Request takes a finished request. It may wait while the receiver is slow.
	Request(f *record.Finished)
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

// Source gives finished requests to take until ctx is done, and tells lost how many it had to drop.
type Source func(ctx context.Context, take func(*record.Finished), lost func(n uint64))

// Runner keeps an exporter running.
type Runner struct {
	Open    Opener
	Source  Source
	Config  func() *config.Config // the one in force
	Options Options               // but for Telemetry
}

const (
	// lookTime is how often the configuration is looked at.
	lookTime = time.Second
	// closeTime bounds how long an exporter may send what waits.
	closeTime = 5 * time.Second
)

// Run exports what the configuration says until ctx is done. Without a receiver it does nothing.
func (r *Runner) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		cfg := r.Config()
		if cfg.Telemetry.OTLP.Host == "" {
			r.awaitChange(ctx, cfg)
			continue
		}
		r.serve(ctx, cfg)
	}
	return nil
}

// serve exports by one configuration, until there is another.
func (r *Runner) serve(ctx context.Context, cfg *config.Config) {
	o := r.Options
	o.Telemetry = &cfg.Telemetry
	e, err := r.Open(ctx, &o)
	if err != nil {
		o.Log.Error("telemetry.otlp: nothing is sent", "error", err)
		r.awaitChange(ctx, cfg)
		return
	}
	serving, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // Run waits for it
		defer close(done)
		defer stop()
		r.awaitChange(serving, cfg)
	}()
	r.Source(serving, e.Request, o.Counts().Lost)
	stop()
	<-done
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := e.Close(closing); err != nil {
		o.Log.Warn("telemetry.otlp: the last telemetry was not sent", "error", err)
	}
}

// awaitChange waits until another configuration is in force, or ctx is done.
func (r *Runner) awaitChange(ctx context.Context, cfg *config.Config) {
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	for r.Config() == cfg {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
