package module

import (
	"testing"
	"testing/synctest"
	"time"
)

// watched is a watchdog over two workers whose reports are kept.
type watched struct {
	*watchdog
	reports []hold
}

func newWatched() *watched {
	w := &watched{}
	w.watchdog = newWatchdog(make([]worker, 2), func(h hold) { w.reports = append(w.reports, h) })
	return w
}

// visit is a hook of worker 1 that takes d.
func (w *watched) visit(d time.Duration) {
	w.workers[1].visits.Add(1)
	w.arm()
	time.Sleep(d) //nolint:forbidigo // the time of a bubble
	w.workers[1].visits.Add(1)
}

func TestHoldsAreCountedAndReported(t *testing.T) {
	for _, row := range []struct {
		name           string
		visits         []time.Duration
		holds, reports int
	}{
		{"short hooks", []time.Duration{0, time.Millisecond, 4 * time.Millisecond}, 0, 0},
		{"many short hooks, one after the other", []time.Duration{3 * time.Millisecond, 3 * time.Millisecond, 3 * time.Millisecond}, 0, 0},
		{"a long one is counted once", []time.Duration{time.Second}, 1, 1},
		{"reports are limited", []time.Duration{20 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond}, 3, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatched()
				for _, d := range row.visits {
					w.visit(d)
				}
				time.Sleep(2 * watchIdle) //nolint:forbidigo // the time of a bubble
				synctest.Wait()
				if n := w.holds.Load(); n != int64(row.holds) || len(w.reports) != row.reports {
					t.Errorf("%d holds, %d reports, want %d, %d", n, len(w.reports), row.holds, row.reports)
				}
				if w.armed.Load() {
					t.Error("the watchdog goes on without traffic")
				}
			})
		})
	}
}

func TestAReportSaysHowManyHoldsWereNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched()
		w.visit(20 * time.Millisecond)
		w.visit(20 * time.Millisecond)
		time.Sleep(reportInterval) //nolint:forbidigo // the time of a bubble
		w.visit(20 * time.Millisecond)
		time.Sleep(2 * watchIdle) //nolint:forbidigo // the time of a bubble
		synctest.Wait()
		if len(w.reports) != 2 || w.reports[1].others != 1 || w.reports[1].worker != 1 || w.reports[1].lasted < maxHold {
			t.Errorf("reports %+v", w.reports)
		}
	})
}

func TestOnlyStacksOfWorkersThreadsAreReported(t *testing.T) {
	const profile = `goroutine profile: total 5
1 @ 0x1 0x2
#	0x1	main.slow+0x1	/main.go:1
#	0x2	bardo.money/gateway/extproc/stream/module.newCoroutine.func1+0x2	/engine.go:1

1 @ 0x1 0x2
#	0x1	iter.Pull[...].func1.1+0x1	/iter.go:1
#	0x2	bardo.money/gateway/extproc/stream/module.newCoroutine.func1+0x2	/engine.go:1

1 @ 0x3
#	0x3	net/http.(*Server).Serve+0x3	/server.go:1
`
	const want = "#\t0x1\tmain.slow+0x1\t/main.go:1\n#\t0x2\tbardo.money/gateway/extproc/stream/module.newCoroutine.func1+0x2\t/engine.go:1\n\n"
	if got := running(profile); got != want {
		t.Errorf("%q", got)
	}
}
