package relay

import (
	"context"
	"log/slog"
	"time"

	"bardo.money/gateway/internal/config"
)

// Sink sends items to a receiver.
type Sink[T any] interface {
	// Take enqueues one item. It may block while the receiver is slow.
	Take(item *T)
	// Close sends what is queued, and stops.
	Close(ctx context.Context) error
}

// Runner runs a sink as configured.
type Runner[T any] struct {
	Key     string                                                         // of the configuration, for the log
	Open    func(ctx context.Context, cfg *config.Config) (Sink[T], error) // nil, nil if none is configured
	Source  Source[T]
	Config  func() *config.Config // in force
	Dropped func(n uint64)        // counts items that were dropped before they were taken
	Log     *slog.Logger
}

const (
	// pollInterval is how often the configuration is checked for changes.
	pollInterval = time.Second
	// closeTime bounds how long a sink may take to send what is queued.
	closeTime = 5 * time.Second
)

// Run opens the configured sink, and again after each change of the configuration, until ctx is done. Without a sink the source is not read.
func (r *Runner[T]) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		cfg := r.Config()
		t, err := r.Open(ctx, cfg)
		if err != nil {
			r.Log.Error(r.Key+": nothing is sent", "error", err)
		}
		if err != nil || t == nil {
			r.awaitChange(ctx, cfg)
			continue
		}
		r.serve(ctx, cfg, t)
	}
	return nil
}

// serve passes items to a sink until the configuration changes.
func (r *Runner[T]) serve(ctx context.Context, cfg *config.Config, t Sink[T]) {
	serving, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // Run waits for it
		defer close(done)
		defer stop()
		r.awaitChange(serving, cfg)
	}()
	r.Source(serving, t.Take, r.Dropped)
	stop()
	<-done
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := t.Close(closing); err != nil {
		r.Log.Warn(r.Key+": the last was not sent", "error", err)
	}
}

// awaitChange waits until another configuration is in force, or ctx is done.
func (r *Runner[T]) awaitChange(ctx context.Context, cfg *config.Config) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for r.Config() == cfg {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
