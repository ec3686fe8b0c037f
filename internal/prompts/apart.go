package prompts

import (
	"context"
	"log/slog"
	"time"

	"bardo.money/gateway/internal/guard"
)

// Unsent counts entries that were written, but that an asynchronous sink did not accept.
const Unsent = "unsent"

// asyncSink writes to a sink in its own goroutine.
type asyncSink struct {
	sink    Sink
	waiting *Log
	count   func(result string, n int)
	logger  *slog.Logger
	failing bool // the last batch failed

	ending chan struct{} // closed when no more entries follow
	ended  chan struct{} // closed when everything is written
	stop   context.CancelFunc
}

// Async returns an asynchronous sink: its entries wait in their own queue, within MaxWaiting, so that other sinks do not wait for it. count is called
// for entries that it did not accept.
func Async(sink Sink, count func(result string, n int), logger *slog.Logger) Sink {
	unsent := func(_ string, n int) { count(Unsent, n) }
	ctx, stop := context.WithCancel(context.Background())
	a := &asyncSink{sink: sink, waiting: New(unsent), count: count, logger: logger, ending: make(chan struct{}), ended: make(chan struct{}), stop: stop}
	guard.Go(func() {
		defer close(a.ended)
		a.run(ctx)
	})
	return a
}

// Write implements Sink. It never blocks.
func (a *asyncSink) Write(_ context.Context, batch []*Entry) error {
	for _, e := range batch {
		a.waiting.Add(e)
	}
	return nil
}

// Tidy implements Sink.
func (a *asyncSink) Tidy(ctx context.Context, now time.Time) error { return a.sink.Tidy(ctx, now) }

// Close implements Sink. Pending entries are written within closeTime.
func (a *asyncSink) Close() error {
	close(a.ending)
	select {
	case <-a.ended:
	case <-time.After(closeTime):
	}
	a.stop()
	<-a.ended
	return a.sink.Close()
}

func (a *asyncSink) run(ctx context.Context) {
	for {
		select {
		case <-a.waiting.wake:
			a.drain(ctx)
		case <-a.ending:
			a.drain(ctx)
			return
		}
	}
}

// drain writes the pending entries.
func (a *asyncSink) drain(ctx context.Context) {
	for {
		batch, bytes := a.waiting.take()
		if len(batch) == 0 {
			return
		}
		err := a.sink.Write(ctx, batch)
		a.waiting.release(bytes)
		if err != nil {
			a.count(Unsent, len(batch))
		}
		a.logTransition(err)
	}
}

// logTransition logs the first of consecutive errors, and their end.
func (a *asyncSink) logTransition(err error) {
	failing := err != nil
	if failing == a.failing {
		return
	}
	a.failing = failing
	if failing {
		a.logger.Error("prompts are kept in the file, and not sent", "error", err)
		return
	}
	a.logger.Info("prompts are sent again")
}
