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
	// MaxHold is how long a thread may be occupied by what one event brought.
	MaxHold = 10 * time.Millisecond
	// lookInterval is the time between two looks. A hold that is shorter than both together may be missed.
	lookInterval = 5 * time.Millisecond
	// watchIdle is how long no thread is busy until the watchdog stops.
	watchIdle = time.Second
	// reportInterval is the time between two reports with stacks.
	reportInterval = 10 * time.Second
	// maxStacks is how many bytes of stacks a report has.
	maxStacks = 16 << 10
)

// Hold is a thread that was occupied for longer than 10 ms by what one event brought: its other requests waited meanwhile.
type Hold struct {
	Thread string
	Lasted time.Duration // so far
	// Stacks are those of the coroutines that run, on any thread; "" if a hold with stacks was reported within the last 10 s.
	Stacks string
}

// Reports passes holds on, with stacks no more than once in 10 s. Safe for concurrent use.
type Reports struct {
	report func(Hold)

	mu     sync.Mutex
	stacks time.Time // when stacks were reported last
}

// NewReports is Reports to a function, which may be called by several goroutines at once.
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

// Watchdog looks at threads as long as there is traffic. Safe for concurrent use.
type Watchdog struct {
	reports *Reports
	armed   atomic.Bool

	mu      sync.Mutex
	threads map[*Thread]sight
	active  time.Time // when a thread was seen busy last
}

// sight is what the last look saw of a thread.
type sight struct {
	visits  uint64
	since   time.Time // when this number was seen first
	counted bool      // as a hold
}

// Thread is one that is watched. Enter and Exit are for one goroutine at a time; they cost an atomic addition and a load.
type Thread struct {
	dog    *Watchdog
	name   string
	visits atomic.Uint64 // of Enter and Exit: odd between them
}

// NewWatchdog reports each hold once, from goroutines of its own, which may run beside each other. It goes on after a panic in report.
func NewWatchdog(report func(Hold)) *Watchdog {
	return &Watchdog{reports: NewReports(report), threads: map[*Thread]sight{}}
}

// Watch adds a thread.
func (d *Watchdog) Watch(name string) *Thread {
	t := &Thread{dog: d, name: name}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.threads[t] = sight{}
	return t
}

// Forget removes the thread from those that are watched.
func (t *Thread) Forget() {
	t.dog.mu.Lock()
	defer t.dog.mu.Unlock()
	delete(t.dog.threads, t)
}

// Enter is the begin of an event.
func (t *Thread) Enter() {
	t.visits.Add(1)
	if d := t.dog; !d.armed.Load() && d.armed.CompareAndSwap(false, true) {
		d.lookLater()
	}
}

// Exit is its end.
func (t *Thread) Exit() { t.visits.Add(1) }

func (d *Watchdog) lookLater() { time.AfterFunc(lookInterval, guard.Func(d.look)) }

// look looks at every thread, and looks again as long as they are busy.
func (d *Watchdog) look() {
	for _, h := range d.lookAtAll() {
		d.reports.Held(h.Thread, h.Lasted)
	}
}

// lookAtAll is the holds that are new. It decides about the next look.
func (d *Watchdog) lookAtAll() (held []Hold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for t, s := range d.threads {
		s = d.see(t.visits.Load(), s, now)
		if lasted := now.Sub(s.since); s.visits%2 == 1 && lasted >= MaxHold && !s.counted {
			s.counted = true
			held = append(held, Hold{Thread: t.name, Lasted: lasted})
		}
		d.threads[t] = s
	}
	if now.Sub(d.active) < watchIdle || !d.rests() {
		d.lookLater()
	}
	return held
}

// see compares a thread with what was seen of it.
func (d *Watchdog) see(visits uint64, s sight, now time.Time) sight {
	if visits != s.visits {
		s = sight{visits: visits, since: now}
		d.active = now
	}
	if visits%2 == 1 {
		d.active = now
	}
	return s
}

// rests stops the watchdog, unless an event has come meanwhile, which saw it armed.
func (d *Watchdog) rests() bool {
	d.armed.Store(false)
	for t, s := range d.threads {
		if t.visits.Load() != s.visits {
			return !d.armed.CompareAndSwap(false, true)
		}
	}
	return true
}

// threadStacks are the stacks of events and coroutines that run, besides those of coroutines that wait. The profile stops the program only for a moment,
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
