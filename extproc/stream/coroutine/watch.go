package coroutine

import (
	"bytes"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/internal/guard"
)

const (
	// MaxHold is the time for which one event may occupy a thread.
	MaxHold = 10 * time.Millisecond
	// checkInterval is the time between two checks. A hold that is shorter than MaxHold plus checkInterval may be missed.
	checkInterval = 5 * time.Millisecond
	// watchIdle is the time without a busy thread after which the watchdog stops.
	watchIdle = time.Second
	// reportInterval is the minimum time between two reports with stacks.
	reportInterval = 10 * time.Second
	// maxStacks is the maximum size of a report's stacks, in bytes.
	maxStacks = 16 << 10
)

// Hold is a thread that one event occupied for longer than 10 ms, so that its other requests had to wait.
type Hold struct {
	Thread string
	Lasted time.Duration // so far
	// Stacks are those of running coroutines, on any thread; "" if a hold with stacks was reported within the last 10 s.
	Stacks string
}

// Reports forwards holds, with stacks at most once in 10 s. Safe for concurrent use.
type Reports struct {
	report func(Hold)

	mu     sync.Mutex
	stacks time.Time // when stacks were last reported
}

// NewReports returns Reports that call report, possibly concurrently.
func NewReports(report func(Hold)) *Reports { return &Reports{report: report} }

// Held reports a hold.
func (r *Reports) Held(thread string, lasted time.Duration) {
	h := Hold{Thread: thread, Lasted: lasted}
	if r.takesStacks(time.Now()) {
		h.Stacks = threadStacks()
	}
	r.report(h)
}

func (r *Reports) takesStacks(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stacks.IsZero() && now.Sub(r.stacks) < reportInterval {
		return false
	}
	r.stacks = now
	return true
}

// Watchdog checks threads while there is traffic. Safe for concurrent use.
type Watchdog struct {
	reports *Reports
	armed   atomic.Bool

	mu      sync.Mutex
	threads map[*Thread]observation
	active  time.Time // when a thread was last seen busy
}

// observation is the last observation of a thread.
type observation struct {
	visits  uint64
	since   time.Time // when this number was first seen
	counted bool      // reported as a hold
}

// Thread is a watched thread. Enter and Exit are used by one goroutine at a time; they cost an atomic addition and a load.
type Thread struct {
	dog    *Watchdog
	name   string
	visits atomic.Uint64 // counts Enter and Exit: odd in between
}

// NewWatchdog returns a watchdog that reports each hold once, from its own goroutines, possibly concurrently. It continues after a panic in report.
func NewWatchdog(report func(Hold)) *Watchdog {
	return &Watchdog{reports: NewReports(report), threads: map[*Thread]observation{}}
}

// Watch adds a thread.
func (d *Watchdog) Watch(name string) *Thread {
	t := &Thread{dog: d, name: name}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.threads[t] = observation{}
	return t
}

// Forget stops watching the thread.
func (t *Thread) Forget() {
	t.dog.mu.Lock()
	defer t.dog.mu.Unlock()
	delete(t.dog.threads, t)
}

// Enter marks the start of an event.
func (t *Thread) Enter() {
	t.visits.Add(1)
	if d := t.dog; !d.armed.Load() && d.armed.CompareAndSwap(false, true) {
		d.checkLater()
	}
}

// Exit marks its end.
func (t *Thread) Exit() { t.visits.Add(1) }

func (d *Watchdog) checkLater() { time.AfterFunc(checkInterval, guard.Func(d.check)) }

// check checks every thread, repeatedly while any is busy.
func (d *Watchdog) check() {
	for _, h := range d.checkAll() {
		d.reports.Held(h.Thread, h.Lasted)
	}
}

// checkAll returns the new holds, and schedules the next check.
func (d *Watchdog) checkAll() (held []Hold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for t, s := range d.threads {
		s = d.observe(t.visits.Load(), s, now)
		if lasted := now.Sub(s.since); s.visits%2 == 1 && lasted >= MaxHold && !s.counted {
			s.counted = true
			held = append(held, Hold{Thread: t.name, Lasted: lasted})
		}
		d.threads[t] = s
	}
	if now.Sub(d.active) < watchIdle || !d.disarm() {
		d.checkLater()
	}
	return held
}

// observe updates the observation of a thread.
func (d *Watchdog) observe(visits uint64, s observation, now time.Time) observation {
	if visits != s.visits {
		s = observation{visits: visits, since: now}
		d.active = now
	}
	if visits%2 == 1 {
		d.active = now
	}
	return s
}

// disarm stops the watchdog, unless an event has arrived meanwhile that saw it armed.
func (d *Watchdog) disarm() bool {
	d.armed.Store(false)
	for t, s := range d.threads {
		if t.visits.Load() != s.visits {
			return !d.armed.CompareAndSwap(false, true)
		}
	}
	return true
}

// threadStacks returns the stacks of running events and coroutines, without those of waiting ones. The profile stops the program only for a moment,
// unlike runtime.Stack.
func threadStacks() string {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // writing to a buffer does not fail
	return running(all.String())
}

// running filters a goroutine profile.
func running(profile string) string {
	var out strings.Builder
	for stack := range strings.SplitSeq(profile, "\n\n") {
		_, frames, _ := strings.Cut(stack, "\n#")
		top, _, _ := strings.Cut(frames, "\n")
		onThread := strings.Contains(frames, "_cgoexp_") || strings.Contains(frames, "stream/coroutine.newCoroutine.")
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
