// Package health tracks the health of providers: it turns results of requests and pings into an order. Failing providers come last, and none is
// removed, so that there is always one to try. It does not know Envoy.
package health

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"bardo.money/gateway/policy"
)

// Kind is what a result means for the provider's health.
type Kind int

// The kinds of results.
const (
	OK          Kind = iota // served
	Failure                 // reset, timeout, 5xx, error event
	RateLimited             // 429: not a failure
	Ignored                 // no meaning: the client's error, or it disconnected
	Unreachable             // no connection
	Refused                 // 401, 403: the gateway's credential is refused
)

// Result is the outcome of one attempt.
type Result struct {
	Provider   policy.ProviderID
	Kind       Kind
	RetryAfter time.Duration // with RateLimited; 0 if the provider stated none
	Latency    time.Duration // with OK: until the first content; 0 if unknown
	Reason     string        // with Refused: the provider's message
}

// Unreached is the error of a ping without a connection.
type Unreached struct{ Reason string }

// Error returns a short reason.
func (e *Unreached) Error() string { return cmp.Or(e.Reason, noConnection) }

const noConnection = "no connection"

func isUnreached(err error) bool {
	_, ok := errors.AsType[*Unreached](err)
	return ok
}

// Refusal is the error of a ping whose credential the provider refuses.
type Refusal struct {
	Status int // 401 or 403
	Reason string
}

// Error returns the provider's message.
func (r *Refusal) Error() string { return r.Reason }

// Limits of the cooldown of a rate-limited provider.
const (
	minCool = time.Second
	maxCool = 5 * time.Minute
)

// Options are the rules. Each field's comment starts with its default.
type Options struct {
	Window      time.Duration // 5 min: period of the error rate
	MinRequests int           // 20: below this number the error rate is not used
	ErrorRate   float64       // 0.05: above this a provider is down
	Failures    int           // 5: consecutive failures after which it is down
	Pings       int           // 3: consecutive failed pings after which it is down
	Connects    int           // 2: consecutive requests and pings without a connection after which it is down
	Pause       time.Duration // 15 s: until a trial request; doubled each time it fails
	MaxPause    time.Duration // 1 min
	ProbeLease  time.Duration // 2 min: lease of a trial request without a result
}

func (o Options) withDefaults() Options {
	o.Window = cmp.Or(o.Window, 5*time.Minute)
	o.MinRequests = cmp.Or(o.MinRequests, 20)
	o.ErrorRate = cmp.Or(o.ErrorRate, 0.05)
	o.Failures = cmp.Or(o.Failures, 5)
	o.Pings = cmp.Or(o.Pings, 3)
	o.Connects = cmp.Or(o.Connects, 2)
	o.Pause = cmp.Or(o.Pause, 15*time.Second)
	o.MaxPause = cmp.Or(o.MaxPause, time.Minute)
	o.ProbeLease = cmp.Or(o.ProbeLease, 2*time.Minute)
	return o
}

// Tracker has the health of a fixed set of providers. Safe for concurrent use. Callers pass the time, which must not go backwards.
type Tracker struct {
	rules Options

	mu      sync.Mutex
	records map[policy.ProviderID]*record
	trials  Trials        // nil unless it follows a control plane
	changed chan struct{} // holds one token when the order or a provider's status may have changed
	urgent  map[policy.ProviderID]bool
	pinging chan struct{} // holds one token when an urgent ping is due
}

// NewTracker returns a tracker of these providers, all in state unknown and working.
func NewTracker(o Options, providers ...policy.ProviderID) *Tracker {
	t := &Tracker{
		rules:   o.withDefaults(),
		records: make(map[policy.ProviderID]*record),
		changed: make(chan struct{}, 1),
		urgent:  make(map[policy.ProviderID]bool),
		pinging: make(chan struct{}, 1),
	}
	t.Track(providers...)
	return t
}

// Track replaces the set of providers. The state of those that stay is kept, that of others is dropped.
func (t *Tracker) Track(providers ...policy.ProviderID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := make(map[policy.ProviderID]*record, len(providers))
	for _, id := range providers {
		if kept[id] = t.records[id]; kept[id] == nil {
			kept[id] = &record{rules: &t.rules, recent: window{step: t.rules.Window / buckets}}
		}
	}
	t.records = kept
	t.notify()
}

// Renew drops the state of providers whose address or credential has changed, and has them pinged immediately.
func (t *Tracker) Renew(providers ...policy.ProviderID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range providers {
		old := t.records[id]
		if old == nil {
			continue
		}
		t.records[id] = &record{rules: &t.rules, recent: window{step: t.rules.Window / buckets}, disabled: old.disabled, directive: old.directive, claims: old.claims + 1}
		t.pingNow(id)
	}
	t.notify()
}

// pingNow has a provider pinged immediately; the caller holds mu.
func (t *Tracker) pingNow(id policy.ProviderID) {
	t.urgent[id] = true
	select {
	case t.pinging <- struct{}{}:
	default:
	}
}

// takeUrgent returns and clears the providers that must be pinged immediately.
func (t *Tracker) takeUrgent() map[policy.ProviderID]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.urgent
	t.urgent = make(map[policy.ProviderID]bool)
	return out
}

// isOut reports whether a provider is down by local results.
func (t *Tracker) isOut(id policy.ProviderID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[id]
	return r != nil && r.out()
}

// Report records the outcome of an attempt. Providers that are not tracked are ignored.
func (t *Tracker) Report(now time.Time, res Result) {
	t.update(now, res.Provider, func(r *record) {
		if r.report(now, res) {
			t.pingNow(res.Provider)
		}
	})
}

// Ping records the outcome of this program's own ping; nil means success.
func (t *Tracker) Ping(now time.Time, p policy.ProviderID, err error) { t.PingFrom(now, "", p, err) }

// PingFrom records the outcome of another program's ping.
func (t *Tracker) PingFrom(now time.Time, source string, p policy.ProviderID, err error) {
	t.update(now, p, func(r *record) { r.ping(now, source, err) })
}

// SetDisabled removes a provider from the order, or adds it again. It reports whether the provider is known.
func (t *Tracker) SetDisabled(p policy.ProviderID, disabled bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[p]
	if r == nil {
		return false
	}
	if r.disabled != disabled {
		r.disabled = disabled
		t.notify()
	}
	return true
}

// Disabled reports whether an operator has disabled the provider.
func (t *Tracker) Disabled(p policy.ProviderID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[p]
	return r != nil && r.off()
}

// Order sorts configured: working providers first, then those in cooldown, then those that are down; disabled ones are left out. Within each
// group the configured order is kept. Untracked providers count as working.
func (t *Tracker) Order(now time.Time, configured []policy.ProviderID) []policy.ProviderID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.order(now, configured, "")
}

// Plan is Order for one request. If a provider that is down is due for a trial, this request is the trial and has the provider at its configured
// position. Call done when the request has ended, whichever providers it reached.
func (t *Tracker) Plan(now time.Time, configured []policy.ProviderID) (order []policy.ProviderID, done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range configured {
		r := t.records[id]
		switch {
		case r == nil || r.off():
		case r.claim(now):
			return t.order(now, configured, id), t.releaser(id, r, r.claims)
		case r.directive.connected && r.directive.out() && !r.directive.trying:
			t.trials.Want(id)
		}
	}
	return t.order(now, configured, ""), func() {}
}

// releaser frees the trial that a request claimed, unless its result did so already.
func (t *Tracker) releaser(id policy.ProviderID, r *record, claim int) func() {
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if r.claims != claim {
			return
		}
		r.release()
		if r.directive.trying {
			r.directive.trying = false
			t.trials.Return(id)
		}
	}
}

// order sorts by priority, with trial as if it were healthy.
func (t *Tracker) order(now time.Time, configured []policy.ProviderID, trial policy.ProviderID) []policy.ProviderID {
	out := make([]policy.ProviderID, 0, len(configured))
	for standing := range 3 {
		for _, id := range configured {
			switch r := t.records[id]; {
			case r == nil || id == trial:
				if standing == 0 {
					out = append(out, id)
				}
			case !r.off() && r.priority(now) == standing:
				out = append(out, id)
			}
		}
	}
	return out
}

func (t *Tracker) update(now time.Time, p policy.ProviderID, change func(*record)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[p]
	if r == nil {
		return
	}
	before, cool, reason := r.priority(now), r.coolUntil, r.reason
	change(r)
	if r.priority(now) != before || !r.coolUntil.Equal(cool) || r.reason != reason {
		t.notify()
	}
}

// notify signals a change without blocking. The caller holds mu.
func (t *Tracker) notify() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// ids returns the tracked providers, sorted.
func (t *Tracker) ids() []policy.ProviderID {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]policy.ProviderID, 0, len(t.records))
	for id := range t.records {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}
