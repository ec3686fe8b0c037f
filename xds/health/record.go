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

	failures    int // in a row
	failedPings int // in a row

	reason   string // why it is out of favour; "" when it is not
	byPings  bool   // nothing but pings put it there
	pause    time.Duration
	probeAt  time.Time // when a request may try it again
	leaseEnd time.Time // a request holds the probe until then; zero if none does
	claims   int       // tells one holder from the next
}

func (r *record) out() bool { return r.reason != "" }

func (r *record) cooling(now time.Time) bool { return now.Before(r.coolUntil) }

// standing sorts providers: the lower, the earlier in the order.
func (r *record) standing(now time.Time) int {
	switch {
	case r.out():
		return 2
	case r.cooling(now):
		return 1
	default:
		return 0
	}
}

// probing reports whether a request holds the probe. A holder that never came back loses it.
func (r *record) probing(now time.Time) bool { return now.Before(r.leaseEnd) }

// claim takes the probe if it is due and free.
func (r *record) claim(now time.Time) bool {
	if !r.out() || r.cooling(now) || now.Before(r.probeAt) || r.probing(now) {
		return false
	}
	r.leaseEnd = now.Add(r.rules.ProbeLease)
	r.claims++
	return true
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

func (r *record) ping(now time.Time, err error) {
	r.seen = true
	if err == nil {
		r.failedPings = 0
		if r.out() && r.byPings {
			r.restore()
		}
		return
	}
	r.failedPings++
	if !r.out() && r.failedPings >= r.rules.Pings {
		r.expel(now, fmt.Sprintf("%d pings in a row failed", r.failedPings))
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
	r.failures, r.failedPings = 0, 0
	r.recent.clear()
	r.release()
}
