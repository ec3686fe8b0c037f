package run

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/xds/snapshot"
)

// The first SIGTERM or SIGINT begins a graceful stop: requests in flight may finish within listen.drain, and the program exits at most stopGrace later,
// even if something hangs. A second signal aborts requests in flight; the program then exits within forcedStopTime. Charges are written to the store, or
// else to the file beside it.
const (
	stopGrace      = 10 * time.Second
	forcedStopTime = 3 * time.Second
	chargeTime     = 3 * time.Second // until aborted requests are charged: usage may arrive after the end of an answer
	flushTime      = time.Second     // for the ledger to save pending changes at the deadline
)

// ending is the state of a stop, from the first signal on.
type ending struct {
	drained  context.Context // done when requests in flight are aborted: listen.drain has passed, or a second signal came
	deadline context.Context // done when the program has to exit
	force    func(os.Signal)
	signaled chan struct{} // closed by force
	by       os.Signal     // the second signal; read after signaled
	release  func()
}

// newEnding begins the stop.
func newEnding(drain time.Duration) *ending {
	drained, endDrain := context.WithTimeout(context.Background(), drain)
	deadline, endAll := context.WithTimeout(context.Background(), drain+stopGrace-flushTime)
	e := &ending{drained: drained, deadline: deadline, signaled: make(chan struct{})}
	late := time.AfterFunc(time.Hour, endAll)
	late.Stop()
	e.force = func(by os.Signal) {
		e.by = by
		close(e.signaled)
		endDrain()
		late.Reset(forcedStopTime)
	}
	e.release = func() {
		late.Stop()
		endDrain()
		endAll()
	}
	return e
}

// status is the exit status: 128 plus the number of a second signal, as shells report it; else nil.
func (e *ending) status() error {
	select {
	case <-e.signaled:
	default:
		return nil
	}
	if s, ok := e.by.(syscall.Signal); ok {
		return cli.Exit(128 + int(s))
	}
	return cli.Exit(1)
}

// watchSignals begins the stop when ctx is done, and forces it on the second signal. Its goroutine ends with the program, or with stop.
func (g *gateway) watchSignals(ctx context.Context) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	finished := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
		case <-finished:
			return
		}
		e := newEnding(g.cfg.Load().Listen.Drain)
		g.ending.Store(e)
		close(g.stopping)
		for n := 0; ; {
			select {
			case by := <-signals:
				if n++; n == 2 {
					e.force(by)
				}
			case <-e.deadline.Done():
				g.forceExit(e)
				return
			case <-finished:
				e.release()
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(finished)
	}
}

// forceExit exits although something hangs, such as a write to a log whose reader does not read. Envoy, a child process, ends too.
func (d *dataPath) forceExit(e *ending) {
	if d.books != nil {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		_ = d.books.CloseWithin(ctx) // there may be no log to report an error to
		cancel()
	}
	code := 1
	if s, ok := e.status().(cli.Exit); ok { //nolint:errorlint // it is not wrapped
		code = int(s)
	}
	os.Exit(code)
}

// drain refuses new requests and waits for those in flight.
func (g *gateway) drain(e *ending) {
	g.draining.Store(true)
	ctx := e.drained
	if g.envoy {
		if err := g.child.Drain(ctx); err != nil {
			g.log.Warn("envoy did not begin to drain", "error", err)
		}
	}
	if g.module {
		g.drainModule(e)
		return
	}
	if !g.data {
		return
	}
	g.log.Info("draining", "exchanges", g.gate.Live())
	if err := g.gate.Idle(ctx); err != nil {
		g.log.Warn("the drain time is over", "exchanges", g.gate.Live())
	}
	if g.envoy {
		g.awaitSent(ctx)
	}
}

// awaitSent waits until Envoy has sent all buffered data to clients.
func (g *gateway) awaitSent(ctx context.Context) {
	if err := g.child.Idle(ctx, snapshot.ListenerHTTP, snapshot.ListenerHTTPS); err != nil {
		g.log.Warn("envoy has not sent everything", "error", err)
	}
}

// drainModule waits for the requests in flight in Envoy's process.
func (g *gateway) drainModule(e *ending) {
	g.log.Info("draining")
	if err := g.inEnvoy.Drain(e.drained); err != nil {
		g.log.Warn("requests did not end in the drain time", "error", err)
	}
	g.awaitSent(e.drained)
	if e.status() != nil {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		g.inEnvoy.ShortenStop(ctx)
	}
}

// awaitCharges waits until the exchanges that were aborted at the end of the drain are charged.
func (g *gateway) awaitCharges(e *ending) {
	if g.gate == nil {
		return
	}
	ctx, cancel := context.WithTimeout(e.deadline, chargeTime)
	defer cancel()
	if err := g.gate.Idle(ctx); err != nil {
		g.log.Warn("exchanges did not end in time: they may not be charged for", "exchanges", g.gate.Live())
	}
}

// close closes what open opened.
func (g *gateway) close() {
	deadline := context.Background()
	if e := g.ending.Load(); e != nil {
		deadline = e.deadline
	}
	g.closeModels()
	g.closeBy(deadline)
}

// closeBy closes what open opened, before deadline is done. The ledger and the events are closed concurrently.
func (g *gateway) closeBy(deadline context.Context) {
	notified := make(chan struct{})
	guard.Go(func() {
		defer close(notified)
		if err := g.events.Close(); err != nil {
			g.log.Error("not every event was written", "error", err)
		}
		if n := g.events.Dropped(); n > 0 {
			g.log.Warn("events were lost: the place that they go to is too slow", "events", n)
		}
	})
	stored := make(chan struct{})
	guard.Go(func() {
		defer close(stored)
		g.limiter.Close(deadline)
		g.answers.Close(deadline)
	})
	g.closeDeferred()
	g.closeSessions()
	g.closeAttestations()
	g.payments.Close()
	g.wallets.Close()
	g.closeIdentities()
	if g.books != nil {
		ctx, cancel := context.WithCancel(deadline)
		if at, ok := deadline.Deadline(); ok {
			ctx, cancel = context.WithDeadline(deadline, at.Add(-2*flushTime))
		}
		if err := g.books.CloseWithin(ctx); err != nil {
			g.log.Error("the ledger was not closed cleanly", "error", err)
		}
		cancel()
	}
	<-stored
	<-notified
	g.audit.Close(&g.events, g.log)
}

// stopError returns the error of a stop that was forced by a second signal; else nil.
func (g *gateway) stopError() error {
	e := g.ending.Load()
	if e == nil {
		return nil
	}
	if err := e.status(); err != nil {
		g.log.Warn("stopped at once by a second signal: what was under way is cut", "signal", fmt.Sprint(e.by))
		return err
	}
	return nil
}
