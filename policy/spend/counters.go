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

// periodOf parses the name of a period.
func periodOf(name string) period {
	if name == monthly.String() {
		return monthly
	}
	return daily
}

// window is the spending in the current day or month.
type window struct {
	began  time.Time
	own    policy.Micro // by this process
	others policy.Micro // by others, and by this one before it started
}

// counters are the counters of one budget.
type counters struct {
	mu          sync.Mutex
	users       int // requests with a hold, or about to get one
	held        policy.Micro
	windows     [periods]window
	refreshedAt time.Time // when the last read of others began
	loaded      bool      // others was read for these windows
}

func (l *counters) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.users == 0
}

// release ends a use without a hold.
func (l *counters) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
}

// roll begins a new day or month. An earlier time, of a request that read the clock before others, counts in the current one. l.mu is locked.
func (l *counters) roll(now time.Time) {
	day, month := starts(now)
	for p, began := range [periods]time.Time{daily: day, monthly: month} {
		w := &l.windows[p]
		if began.After(w.began) {
			*w, l.loaded = window{began: began}, false
		}
	}
}

// stale reports whether the spending of others must be read again.
func (l *counters) stale(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll(now)
	return l.isStale(now)
}

func (l *counters) isStale(now time.Time) bool {
	age := now.Sub(l.refreshedAt)
	return !l.loaded || age < 0 || age >= maxSpendingAge
}

// beginRefresh reports whether the caller has to read the spending of others. If so, it returns false to other callers for a while.
func (l *counters) beginRefresh(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll(now)
	if !l.isStale(now) {
		return false
	}
	l.refreshedAt = now
	return true
}

func (l *counters) endRefresh(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll(now)
	l.loaded = true
}

func (l *counters) own(p period) window {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.windows[p]
}

// setOthers sets the spending of others. own was read just before stored, so that a charge in between counts twice until the next read, rather than not at
// all.
func (l *counters) setOthers(p period, own window, stored policy.Micro) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := &l.windows[p]; w.began.Equal(own.began) {
		w.others = max(stored-own.own, 0)
	}
}

// hold holds an amount, or returns the limit that has too little left.
func (l *counters) hold(now time.Time, b *policy.Budget, maxCost policy.Micro) *policy.OverBudget {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll(now)
	for p, limit := range [periods]policy.Micro{daily: b.PerDay, monthly: b.PerMonth} {
		if limit <= 0 {
			continue
		}
		w := &l.windows[p]
		left := max(limit-w.own-w.others, 0)
		if left > 0 && maxCost <= left-l.held {
			continue
		}
		return &policy.OverBudget{
			Holder: b.Holder, ID: b.ID, Period: period(p).String(), Limit: limit, Left: left, MaxCost: maxCost, Action: "refused", RetryAt: retryAt(now, period(p), left, maxCost),
		}
	}
	l.held += maxCost
	return nil
}

// done replaces a hold by a charge.
func (l *counters) done(now time.Time, held, charged policy.Micro) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll(now)
	l.users--
	l.held -= held
	for p := range l.windows {
		l.windows[p].own += charged
	}
}
