package coroutine

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/internal/guard"
)

// watched is a watchdog over two threads that stores its reports.
type watched struct {
	*Watchdog
	idle, busy *Thread
	mu         sync.Mutex
	reports    []Hold
}

func newWatched() *watched {
	w := &watched{}
	w.Watchdog = NewWatchdog(func(h Hold) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.reports = append(w.reports, h)
	})
	w.idle, w.busy = w.Watch("idle"), w.Watch("busy")
	return w
}

// visit is an event of the busy thread with duration d.
func (w *watched) visit(d time.Duration) {
	w.busy.Enter()
	time.Sleep(d) //nolint:forbidigo // the time of a bubble
	w.busy.Exit()
}

func rest() {
	time.Sleep(2 * watchIdle) //nolint:forbidigo // the time of a bubble
	synctest.Wait()
}

func TestHoldsAreReportedOnce(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		name   string
		visits []time.Duration
		holds  int
	}{
		{"short events", []time.Duration{0, ms, 8 * ms}, 0},
		{"many short ones, one after the other", []time.Duration{6 * ms, 6 * ms, 6 * ms, 6 * ms, 6 * ms}, 0},
		{"a long one", []time.Duration{time.Second}, 1},
		{"several", []time.Duration{40 * ms, 40 * ms, 40 * ms}, 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatched()
				for _, d := range row.visits {
					w.visit(d)
				}
				rest()
				if len(w.reports) != row.holds {
					t.Errorf("%d reports, want %d", len(w.reports), row.holds)
				}
				if w.armed.Load() {
					t.Error("the watchdog goes on without traffic")
				}
			})
		})
	}
}

func TestStacksAreNotReportedAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched()
		var p Pool
		co := p.Take(task(func() bool { w.visit(40 * time.Millisecond); return false }))
		p.Run(co)
		w.visit(40 * time.Millisecond)
		time.Sleep(reportInterval) //nolint:forbidigo // the time of a bubble
		p.Run(p.Take(task(func() bool { w.visit(40 * time.Millisecond); return false })))
		rest()
		p.Close()
		if len(w.reports) != 3 {
			t.Fatalf("reports %+v", w.reports)
		}
		for i, r := range w.reports {
			if r.Thread != "busy" || r.Lasted < MaxHold || strings.Contains(r.Stacks, "visit") != (i != 1) {
				t.Errorf("report %d: %+v", i, r)
			}
		}
	})
}

func TestAThreadThatIsForgottenIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched()
		w.busy.Enter()
		w.busy.Forget()
		rest()
		if len(w.reports) != 0 || len(w.threads) != 1 {
			t.Errorf("reports %+v, %d threads", w.reports, len(w.threads))
		}
	})
}

func TestTheWatchdogOutlivesAPanicOfItsReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := guard.Count()
		d := NewWatchdog(func(Hold) { panic("in a report") })
		w := watched{Watchdog: d, busy: d.Watch("busy")}
		w.visit(40 * time.Millisecond)
		w.visit(40 * time.Millisecond)
		rest()
		if n := guard.Count() - before; n != 2 {
			t.Errorf("%d panics, want 2", n)
		}
	})
}

func TestOnlyStacksOfWhatRunsAreReported(t *testing.T) {
	const profile = `goroutine profile: total 5
1 @ 0x1 0x2
#	0x1	main.slow+0x1	/main.go:1
#	0x2	bardo.money/gateway/extproc/stream/coroutine.newCoroutine.func1+0x2	/coroutine.go:1

1 @ 0x1 0x2
#	0x1	iter.Pull[...].func1.1+0x1	/iter.go:1
#	0x2	bardo.money/gateway/extproc/stream/coroutine.newCoroutine.func1+0x2	/coroutine.go:1

1 @ 0x3
#	0x3	net/http.(*Server).Serve+0x3	/server.go:1
`
	const want = "#\t0x1\tmain.slow+0x1\t/main.go:1\n#\t0x2\tbardo.money/gateway/extproc/stream/coroutine.newCoroutine.func1+0x2\t/coroutine.go:1\n\n"
	if got := running(profile); got != want {
		t.Errorf("%q", got)
	}
}
