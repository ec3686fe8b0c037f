package health

import (
	"fmt"
	"time"
)

// record is what is known of one provider. Its methods decide; Tracker guards them.
type record struct {
	rules *Options

	recent    window
	latency   latencies
	seen      bool // a result or a ping has come in
	disabled  bool
	coolUntil time.Time

	failures int            // in a row
	pings    map[string]int // failed in a row, by who sent them

	reason   string // why it is out of favour; "" when it is not
	byPings  bool   // nothing but pings put it there
	pause    time.Duration
	probeAt  time.Time // when a request may try it again
	leaseEnd time.Time // a request holds the probe until then; zero if none does
	claims   int       // tells one holder from the next

	word word // where this tracker follows a control plane
}

// out reports whether it is out of favour by what was seen here.
func (r *record) out() bool { return r.reason != "" }

// down reports whether it is out of favour here or by the control plane's word.
func (r *record) down() bool { return r.out() || r.word.out() }

// off reports whether an operator has taken it out of the order.
func (r *record) off() bool { return r.disabled || r.word.state == Disabled }

func (r *record) cooling(now time.Time) bool { return now.Before(r.coolsUntil()) }

func (r *record) coolsUntil() time.Time {
	if r.word.coolUntil.After(r.coolUntil) {
		return r.word.coolUntil
	}
	return r.coolUntil
}

// standing sorts providers: the lower, the earlier in the order.
func (r *record) standing(now time.Time) int {
	switch {
	case r.down():
		return 2
	case r.cooling(now):
		return 1
	default:
		return 0
	}
}

// probing reports whether a request holds the probe. A holder that never came back loses it.
func (r *record) probing(now time.Time) bool { return now.Before(r.leaseEnd) }

// claim takes the probe if it is due and free. What the control plane has put out of favour is due when it says so.
func (r *record) claim(now time.Time) bool {
	if r.word.leads && r.word.out() {
		if !r.word.granted {
			return false
		}
		r.word.granted, r.word.trying = false, true
		r.lease(now)
		return true
	}
	if !r.out() || r.cooling(now) || now.Before(r.probeAt) || r.probing(now) {
		return false
	}
	r.lease(now)
	return true
}

func (r *record) lease(now time.Time) {
	r.leaseEnd = now.Add(r.rules.ProbeLease)
	r.claims++
}

func (r *record) release() { r.leaseEnd = time.Time{} }

func (r *record) report(now time.Time, res Result) {
	r.seen = true
	switch res.Kind {
	case OK:
		r.latency.add(res.Latency)
		r.failures = 0
		r.recent.add(now, true)
		if r.out() && r.probing(now) {
			r.restore()
		}
	case Failure:
		r.failures++
		r.recent.add(now, false)
		r.fail(now)
	case RateLimited:
		// Busy is not broken: the provider answers. Its probe is free again for when it has cooled down.
		until := now.Add(min(max(res.RetryAfter, minCool), maxCool))
		if until.After(r.coolUntil) {
			r.coolUntil = until
		}
		r.release()
	case Ignored:
		r.release()
	}
}

// fail decides after a failure.
func (r *record) fail(now time.Time) {
	if r.out() {
		if r.probing(now) {
			r.pause = min(2*r.pause, r.rules.MaxPause)
			r.probeAt = now.Add(r.pause)
			r.release()
		}
		r.byPings = false
		return
	}
	good, bad := r.recent.count(now)
	switch rate := float64(bad) / float64(good+bad); {
	case r.failures >= r.rules.Failures:
		r.expel(now, fmt.Sprintf("%d failures in a row", r.failures))
	case good+bad >= r.rules.MinRequests && rate > r.rules.ErrorRate:
		r.expel(now, fmt.Sprintf("%.0f %% of %d requests failed", 100*rate, good+bad))
	}
}

// ping takes one of a source's pings. Where several sources ping, all must have failed: one of them may have trouble of its own.
func (r *record) ping(now time.Time, source string, err error) {
	r.seen = true
	if r.pings == nil {
		r.pings = map[string]int{}
	}
	if err == nil {
		r.pings[source] = 0
		if r.out() && r.byPings {
			r.restore()
		}
		return
	}
	r.pings[source]++
	failed := r.pings[source]
	for _, n := range r.pings {
		failed = min(failed, n)
	}
	if !r.out() && failed >= r.rules.Pings {
		r.expel(now, fmt.Sprintf("%d pings in a row failed", failed))
		r.byPings = true
	}
}

func (r *record) expel(now time.Time, reason string) {
	r.reason, r.byPings = reason, false
	r.pause = r.rules.Pause
	r.probeAt = now.Add(r.pause)
	r.release()
}

// restore starts afresh: what happened before must not count against a provider that is back.
func (r *record) restore() {
	r.reason, r.byPings = "", false
	r.failures = 0
	clear(r.pings)
	r.recent.clear()
	r.release()
}
