package spend

import (
	"sync"
	"time"

	"bardo.money/gateway/policy"
)

// period is a day or a month.
type period uint8

const (
	daily period = iota
	monthly

	periods = iota
)

func (p period) String() string { return [...]string{daily: "day", monthly: "month"}[p] }

// periodOf is the period of a name.
func periodOf(name string) period {
	if name == monthly.String() {
		return monthly
	}
	return daily
}

// window is what was spent in the current day or month.
type window struct {
	began  time.Time
	own    policy.Micro // by this process
	others policy.Micro // by others, and by this one before it started
}

// line is one holder's counters.
type line struct {
	mu      sync.Mutex
	users   int // requests that hold of it or are about to
	held    policy.Micro
	windows [periods]window
	asked   time.Time // when others was read last, or is being read
	read    bool      // others was read in these windows
}

func (l *line) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.users == 0
}

// leave ends the use of a line that holds nothing.
func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
}

// roll begins a new day or month. A time before the current one, of a request that read the clock earlier, counts in it. l.mu is locked.
func (l *line) roll(now time.Time) {
	day, month := starts(now)
	for p, began := range [periods]time.Time{daily: day, monthly: month} {
		w := &l.windows[p]
		if began.After(w.began) {
			*w, l.read = window{began: began}, false
		}
	}
}

// stale reports whether the spending of others must be read again.
func (l *line) stale(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll(now)
	return l.isStale(now)
}

func (l *line) isStale(now time.Time) bool {
	age := now.Sub(l.asked)
	return !l.read || age < 0 || age >= refreshTime
}

// take reports whether the caller has to read the spending of others, which is then another's task for a while.
func (l *line) take(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll(now)
	if !l.isStale(now) {
		return false
	}
	l.asked = now
	return true
}

func (l *line) loaded(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll(now)
	l.read = true
}

func (l *line) own(p period) window {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.windows[p]
}

// setOthers sets the spending of others. own was read just before stored, so that a charge in between counts twice until the next read, rather than not at
// all.
func (l *line) setOthers(p period, own window, stored policy.Micro) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := &l.windows[p]; w.began.Equal(own.began) {
		w.others = max(stored-own.own, 0)
	}
}

// hold holds an amount, or says why not.
func (l *line) hold(now time.Time, b *policy.Budget, most policy.Micro) *policy.OverBudget {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll(now)
	for p, limit := range [periods]policy.Micro{daily: b.PerDay, monthly: b.PerMonth} {
		if limit <= 0 {
			continue
		}
		w := &l.windows[p]
		left := max(limit-w.own-w.others, 0)
		if left > 0 && most <= left-l.held {
			continue
		}
		return &policy.OverBudget{
			Holder: b.Holder, ID: b.ID, Period: period(p).String(), Limit: limit, Left: left, MaxCost: most, Action: "refused", RetryAt: again(now, period(p), left, most),
		}
	}
	l.held += most
	return nil
}

// done replaces what was held by what was charged.
func (l *line) done(now time.Time, held, charged policy.Micro) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll(now)
	l.users--
	l.held -= held
	for p := range l.windows {
		l.windows[p].own += charged
	}
}
