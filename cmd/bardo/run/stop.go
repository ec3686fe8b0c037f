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

// The first SIGTERM or SIGINT begins the stop: what is under way may finish within listen.drain, and stopRest later the program is gone,
// whatever hangs. A second signal cuts what is under way and leaves hurryTime. Charges are in the store then, or in the file beside it.
const (
	stopRest   = 10 * time.Second
	hurryTime  = 3 * time.Second
	chargeTime = 3 * time.Second // until what was cut is charged for: usage may lag behind the end of an answer
	keepTime   = time.Second     // for the ledger to keep what waits, where the time is over
)

// ending is the stop of the program, from the first signal on.
type ending struct {
	drained  context.Context // done when nothing may finish any more: listen.drain is over, or a second signal came
	over     context.Context // done when the program has to be gone
	hurry    func(os.Signal)
	signaled chan struct{} // closed by hurry
	by       os.Signal     // the second signal; read after signaled
	release  func()
}

// newEnding begins the stop.
func newEnding(drain time.Duration) *ending {
	drained, endDrain := context.WithTimeout(context.Background(), drain)
	over, endAll := context.WithTimeout(context.Background(), drain+stopRest-keepTime)
	e := &ending{drained: drained, over: over, signaled: make(chan struct{})}
	late := time.AfterFunc(time.Hour, endAll)
	late.Stop()
	e.hurry = func(by os.Signal) {
		e.by = by
		close(e.signaled)
		endDrain()
		late.Reset(hurryTime)
	}
	e.release = func() {
		late.Stop()
		endDrain()
		endAll()
	}
	return e
}

// status is the program's exit status: 128 and the number of a second signal, as shells count, else 0.
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

// watchSignals begins the stop with ctx, and hurries it with the second signal. What it starts ends with the program, or with stop.
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
					e.hurry(by)
				}
			case <-e.over.Done():
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

// forceExit ends the program, because something that it waits for does not end, such as a write to a log whose reader hangs. Envoy dies with it.
func (d *dataPath) forceExit(e *ending) {
	if d.books != nil {
		ctx, cancel := context.WithTimeout(context.Background(), keepTime)
		_ = d.books.CloseWithin(ctx) // there may be no log to say so
		cancel()
	}
	code := 1
	if s, ok := e.status().(cli.Exit); ok { //nolint:errorlint // it is not wrapped
		code = int(s)
	}
	os.Exit(code)
}

// drain lets what is under way finish, and admits nothing new.
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

// awaitSent waits until Envoy has sent its clients everything.
func (g *gateway) awaitSent(ctx context.Context) {
	if err := g.child.Idle(ctx, snapshot.ListenerHTTP, snapshot.ListenerHTTPS); err != nil {
		g.log.Warn("envoy has not sent everything", "error", err)
	}
}

// drainModule lets what is under way in Envoy's process finish.
func (g *gateway) drainModule(e *ending) {
	g.log.Info("draining")
	if err := g.inEnvoy.drain(e.drained); err != nil {
		g.log.Warn("requests did not end in the drain time", "error", err)
	}
	g.awaitSent(e.drained)
	if e.status() != nil {
		g.inEnvoy.hurry()
	}
}

// charge waits until the exchanges that the end of the drain has cut are charged for.
func (g *gateway) charge(e *ending) {
	if g.gate == nil {
		return
	}
	ctx, cancel := context.WithTimeout(e.over, chargeTime)
	defer cancel()
	if err := g.gate.Idle(ctx); err != nil {
		g.log.Warn("exchanges did not end in time: they may not be charged for", "exchanges", g.gate.Live())
	}
}

// close closes what open opened.
func (g *gateway) close() {
	over := context.Background()
	if e := g.ending.Load(); e != nil {
		over = e.over
	}
	g.closeModels()
	g.closeBy(over)
}

// closeBy closes what open opened before over is done. The ledger and the events do not wait for each other.
func (g *gateway) closeBy(over context.Context) {
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
		g.limiter.Close(over)
		g.answers.Close(over)
	})
	g.closeDeferred()
	g.closeSessions()
	g.closeAttestations()
	g.payments.Close()
	g.wallets.Close()
	g.closeIdentities()
	if g.books != nil {
		ctx, cancel := context.WithCancel(over)
		if deadline, ok := over.Deadline(); ok {
			ctx, cancel = context.WithDeadline(over, deadline.Add(-2*keepTime))
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

// stopped is the end of a program that was asked to stop.
func (g *gateway) stopped() error {
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
