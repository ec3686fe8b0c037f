package relay

import (
	"context"
	"log/slog"
	"time"

	"bardo.money/gateway/internal/config"
)

// Taker sends what it is given to a receiver.
type Taker[T any] interface {
	// Take takes one thing. It may wait while the receiver is slow.
	Take(item *T)
	// Close sends what waits, and stops.
	Close(ctx context.Context) error
}

// Runner keeps a taker as the configuration wants it.
type Runner[T any] struct {
	Key    string                                                          // of the configuration, for the log
	Open   func(ctx context.Context, cfg *config.Config) (Taker[T], error) // nil, nil where nothing is wanted
	Source Source[T]
	Config func() *config.Config // the one in force
	Lost   func(n uint64)        // counts what was dropped before it was taken
	Log    *slog.Logger
}

const (
	// lookTime is how often the configuration is looked at.
	lookTime = time.Second
	// closeTime bounds how long a taker may send what waits.
	closeTime = 5 * time.Second
)

// Run sends what the configuration says until ctx is done. While nothing is wanted, nothing is read.
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

// serve passes things to a taker until there is another configuration.
func (r *Runner[T]) serve(ctx context.Context, cfg *config.Config, t Taker[T]) {
	serving, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // Run waits for it
		defer close(done)
		defer stop()
		r.awaitChange(serving, cfg)
	}()
	r.Source(serving, t.Take, r.Lost)
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
