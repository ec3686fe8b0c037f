package prompts

import (
	"context"
	"log/slog"
	"time"

	"bardo.money/gateway/internal/guard"
)

// Unsent counts entries that are written, and that a sink apart did not take.
const Unsent = "unsent"

// apart writes to a sink on a goroutine of its own.
type apart struct {
	sink    Sink
	waiting *Log
	count   func(result string, n int)
	logger  *slog.Logger
	failing bool // the last batch

	ending chan struct{} // closed when nothing more comes
	ended  chan struct{} // closed when nothing more is written
	stop   context.CancelFunc
}

// Apart is a sink beside others that do not wait for it: its entries wait in a queue of their own, within MaxWaiting. count is told of those that it did not take.
func Apart(sink Sink, count func(result string, n int), logger *slog.Logger) Sink {
	unsent := func(_ string, n int) { count(Unsent, n) }
	ctx, stop := context.WithCancel(context.Background())
	a := &apart{sink: sink, waiting: New(unsent), count: count, logger: logger, ending: make(chan struct{}), ended: make(chan struct{}), stop: stop}
	guard.Go(func() {
		defer close(a.ended)
		a.run(ctx)
	})
	return a
}

// Write implements Sink. It never waits.
func (a *apart) Write(_ context.Context, batch []*Entry) error {
	for _, e := range batch {
		a.waiting.Add(e)
	}
	return nil
}

// Tidy implements Sink.
func (a *apart) Tidy(ctx context.Context, now time.Time) error { return a.sink.Tidy(ctx, now) }

// Close implements Sink: what waits is written within closeTime.
func (a *apart) Close() error {
	close(a.ending)
	select {
	case <-a.ended:
	case <-time.After(closeTime):
	}
	a.stop()
	<-a.ended
	return a.sink.Close()
}

func (a *apart) run(ctx context.Context) {
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

// drain writes what waits.
func (a *apart) drain(ctx context.Context) {
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
		a.tell(err)
	}
}

// tell notes an error in the gateway's log when it is the first of several, and its end.
func (a *apart) tell(err error) {
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
