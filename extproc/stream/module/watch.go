package module

import (
	"bytes"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Nothing may wait in a hook, or in a coroutine between two waits for Envoy: every other request of the worker waits with it. The watchdog finds what
// does so. It looks at the workers as long as there is traffic, and costs a hook two atomic additions and a load.

const (
	// maxHold is how long one outermost hook may occupy its worker's thread.
	maxHold = 5 * time.Millisecond
	// lookInterval is the time between two looks. A hold that is shorter than both together may be missed.
	lookInterval = 2 * time.Millisecond
	// watchIdle is how long no hook runs until the watchdog stops.
	watchIdle = time.Second
	// reportInterval is the time between two reports. Holds between them are only counted.
	reportInterval = 10 * time.Second
	// maxStacks is how many bytes of stacks a report has.
	maxStacks = 16 << 10
)

// Holds is how often a hook occupied its worker's thread for longer than 5 ms, since the process started. Safe for concurrent use.
func Holds() int64 { return watching.holds.Load() }

var watching = newWatchdog(workers[:], reportHold)

// watchdog looks at workers.
type watchdog struct {
	workers []worker
	report  func(h hold)
	holds   atomic.Int64
	armed   atomic.Bool

	mu       sync.Mutex // of look
	seen     []sight
	active   time.Time // when a hook was seen last
	reported time.Time
	unsaid   int64 // holds since the last report
}

// sight is what the last look saw of a worker.
type sight struct {
	visits  uint64
	since   time.Time // when this number was seen first
	counted bool      // as a hold
}

// hold is what is reported: of this worker, since the last report, and the stacks of what runs on workers' threads.
type hold struct {
	worker int
	lasted time.Duration // so far
	others int64         // holds since the last report
	stacks string
}

func newWatchdog(workers []worker, report func(hold)) *watchdog {
	return &watchdog{workers: workers, report: report, seen: make([]sight, len(workers))}
}

// arm starts the watchdog if it rests. It is called after a hook was counted.
func (d *watchdog) arm() {
	if d.armed.Load() || !d.armed.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(lookInterval, d.look)
}

// look looks at every worker, and looks again as long as hooks run.
func (d *watchdog) look() {
	defer func() {
		if v := recover(); v != nil { // the watchdog ends, the process goes on
			logf(levelError, "a panic: %v\n%s", v, debug.Stack())
		}
	}()
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for i := range d.workers {
		d.lookAt(i, now)
	}
	if now.Sub(d.active) < watchIdle || !d.rests() {
		time.AfterFunc(lookInterval, d.look)
	}
}

// rests stops the watchdog, unless a hook has come meanwhile, which saw it armed.
func (d *watchdog) rests() bool {
	d.armed.Store(false)
	for i := range d.workers {
		if d.workers[i].visits.Load() != d.seen[i].visits {
			return !d.armed.CompareAndSwap(false, true)
		}
	}
	return true
}

func (d *watchdog) lookAt(i int, now time.Time) {
	s, visits := &d.seen[i], d.workers[i].visits.Load()
	if visits != s.visits {
		*s = sight{visits: visits, since: now}
		d.active = now
	}
	if visits%2 == 0 {
		return // no hook runs
	}
	d.active = now
	if lasted := now.Sub(s.since); lasted >= maxHold && !s.counted {
		s.counted = true
		d.count(i, now, lasted)
	}
}

func (d *watchdog) count(worker int, now time.Time, lasted time.Duration) {
	d.holds.Add(1)
	if !d.reported.IsZero() && now.Sub(d.reported) < reportInterval {
		d.unsaid++
		return
	}
	d.report(hold{worker: worker, lasted: lasted, others: d.unsaid, stacks: threadStacks()})
	d.reported, d.unsaid = now, 0
}

func reportHold(h hold) {
	logf(levelWarn, "worker %d is held by one hook for more than %v: its other requests wait; %d other holds since the last report. What runs on workers' threads:\n%s",
		h.worker, h.lasted, h.others, h.stacks)
}

// threadStacks are the stacks of hooks and coroutines that run, besides those that wait for Envoy. The profile stops the program only for a moment,
// unlike runtime.Stack.
func threadStacks() string {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // a buffer takes it
	return running(all.String())
}

// running selects from a profile of goroutines.
func running(profile string) string {
	var out strings.Builder
	for stack := range strings.SplitSeq(profile, "\n\n") {
		_, frames, _ := strings.Cut(stack, "\n#")
		top, _, _ := strings.Cut(frames, "\n")
		onThread := strings.Contains(frames, "_cgoexp_") || strings.Contains(frames, "stream/module.newCoroutine.")
		if !onThread || strings.Contains(top, "\titer.") {
			continue
		}
		if out.Len()+len(frames) > maxStacks {
			break
		}
		out.WriteString("#" + frames + "\n\n")
	}
	return out.String()
}
