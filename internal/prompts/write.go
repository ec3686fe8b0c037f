package prompts

import (
	"context"
	"log/slog"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/guard"
)

// Sink stores masked entries. It is used by one goroutine.
type Sink interface {
	Write(ctx context.Context, batch []*Entry) error
	// Tidy removes expired entries.
	Tidy(ctx context.Context, now time.Time) error
	Close() error
}

// Options configure the writing of a log.
type Options struct {
	Config func() *config.Config                                         // returns the configuration in effect
	Open   func(ctx context.Context, cfg *config.Config) ([]Sink, error) // none if the log is disabled
	Redact func(string) string                                           // removes the gateway's own credentials
	Logger *slog.Logger                                                  // receives no content
}

const (
	// tidyTime is the interval of removing expired entries.
	tidyTime = time.Minute
	// maskTime is the timeout of masking one entry.
	maskTime = 10 * time.Second
	// closeTime is the timeout of writing pending entries at the end.
	closeTime = 5 * time.Second
)

// writer is one run of a log.
type writer struct {
	*Log
	Options

	cfg     *config.Config // that the sinks were opened for
	sinks   []Sink
	failing bool // the last batch, or opening the sinks, failed
}

// Run writes entries to the configured sinks until ctx is done, and then the pending ones. Only one goroutine at a time may run it.
func (l *Log) Run(ctx context.Context, o Options) {
	w := &writer{Log: l, Options: o}
	defer w.close()
	working, end := context.WithCancel(context.WithoutCancel(ctx)) // so that entries being written when ctx is done are not lost
	defer end()
	defer context.AfterFunc(ctx, guard.Func(func() {
		select {
		case <-time.After(closeTime):
			end()
		case <-working.Done():
		}
	}))()
	tick := time.NewTicker(tidyTime)
	defer tick.Stop()
	w.tidy(working)
	for {
		select {
		case <-l.wake:
			w.drain(working)
		case <-tick.C:
			w.tidy(working)
		case <-ctx.Done():
			w.drain(working)
			return
		}
	}
}

// follow opens the sinks of a changed configuration.
func (w *writer) follow(ctx context.Context) {
	cfg := w.Config()
	if cfg == w.cfg {
		return
	}
	w.close()
	sinks, err := w.Open(ctx, cfg)
	w.sinks = sinks
	w.logTransition(err)
	if err == nil {
		w.cfg = cfg // otherwise it is retried with the next entries
	}
}

func (w *writer) close() {
	for _, s := range w.sinks {
		if err := s.Close(); err != nil {
			w.Logger.Warn("the prompt log was not closed cleanly", "error", err)
		}
	}
	w.sinks, w.cfg = nil, nil
}

// logTransition logs the first of consecutive errors, and their end.
func (w *writer) logTransition(err error) {
	if failing := err != nil; failing != w.failing {
		w.failing = failing
		if failing {
			w.Logger.Error("prompts are not logged", "error", err)
			return
		}
		w.Logger.Info("prompts are logged again")
	}
}

func (w *writer) tidy(ctx context.Context) {
	w.follow(ctx)
	for _, s := range w.sinks {
		if err := s.Tidy(ctx, time.Now()); err != nil {
			w.logTransition(err)
		}
	}
}

// drain writes the pending entries.
func (w *writer) drain(ctx context.Context) {
	for {
		batch, bytes := w.take()
		if len(batch) == 0 {
			return
		}
		w.batch(ctx, batch, bytes)
	}
}

// batch masks entries and writes them.
func (w *writer) batch(ctx context.Context, batch []*Entry, bytes int) {
	defer w.release(bytes)
	w.follow(ctx)
	kept := batch[:0]
	for _, e := range batch {
		if err := w.mask(ctx, e); err != nil {
			w.count(Unmasked, 1)
			continue
		}
		kept = append(kept, e)
	}
	if len(kept) == 0 {
		return
	}
	if len(w.sinks) == 0 { // no sink could be opened, or the log was disabled
		w.count(Failed, len(kept))
		return
	}
	var failed error
	for _, s := range w.sinks {
		if err := s.Write(ctx, kept); err != nil {
			failed = err
		}
	}
	w.logTransition(failed)
	if failed != nil {
		w.count(Failed, len(kept))
		return
	}
	w.count(Written, len(kept))
}

// mask masks the texts of an entry, and the gateway's credentials in them.
func (w *writer) mask(ctx context.Context, e *Entry) error {
	ctx, cancel := context.WithTimeout(ctx, maskTime)
	defer cancel()
	at := e.texts()
	texts := make([]string, len(at))
	for i, s := range at {
		texts[i] = *s
	}
	if err := e.Mask.Redact(ctx, e.Account, texts); err != nil {
		return err
	}
	for i, s := range at {
		*s = w.Redact(texts[i])
	}
	return nil
}
