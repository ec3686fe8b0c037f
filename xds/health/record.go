package health

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
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

	failures int               // in a row
	unmet    int               // attempts in a row without a connection
	pings    map[string]pinged // by who sent them

	cause    cause  // what put it out of favour
	reason   string // in words; "" when it is not out
	byPings  bool   // pings say so too, or they alone: one that succeeds ends it
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

// report takes the outcome of an attempt. It reports whether a ping should look at the provider soon.
func (r *record) report(now time.Time, res Result) (look bool) {
	r.seen = true
	if res.Kind != Unreachable && res.Kind != Ignored {
		r.unmet = 0
	}
	switch res.Kind {
	case OK:
		r.latency.add(res.Latency)
		r.failures = 0
		r.recent.add(now, true)
		if r.out() && (r.probing(now) || r.cause == refused) {
			r.restore()
		}
	case Failure:
		r.failures++
		r.recent.add(now, false)
		r.fail(now)
		return r.failures == 1 // Envoy does not tell of an attempt that it went on from whether there was a connection
	case Unreachable:
		r.failures++
		r.unmet++
		r.recent.add(now, false)
		r.fail(now)
		r.missed(now, res.Reason)
		return r.unmet == 1
	case Refused:
		r.recent.add(now, false)
		look = r.cause != refused
		r.refuse(now, res.Reason)
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
	return look
}

// fail decides after a failure.
func (r *record) fail(now time.Time) {
	if r.out() {
		r.delay(now)
		r.byPings = r.byPings && r.cause != failing
		return
	}
	good, bad := r.recent.count(now)
	switch rate := float64(bad) / float64(good+bad); {
	case r.failures >= r.rules.Failures:
		r.expel(now, failing, fmt.Sprintf("%d failures in a row", r.failures))
	case good+bad >= r.rules.MinRequests && rate > r.rules.ErrorRate:
		r.expel(now, failing, fmt.Sprintf("%.0f %% of %d requests failed", 100*rate, good+bad))
	}
}

// delay doubles the pause after a probe that failed.
func (r *record) delay(now time.Time) {
	if !r.probing(now) {
		return
	}
	r.pause = min(2*r.pause, r.rules.MaxPause)
	r.probeAt = now.Add(r.pause)
	r.release()
}

// refuse notes that a request's credential was not taken.
func (r *record) refuse(now time.Time, reason string) {
	if r.cause == refused {
		r.delay(now)
		if !r.byPings && len(reason) > len(r.reason) {
			r.reason = reason // Envoy tells the status of a failed attempt, not what was said
		}
		return
	}
	r.expel(now, refused, cmp.Or(reason, "its credential is refused"))
}

// missed decides after an attempt or a ping that got no connection. Requests of all sources and the pings of the luckiest source count.
func (r *record) missed(now time.Time, reason string) {
	pings := r.least(func(p pinged) int { return p.unmet })
	if r.out() || r.unmet+pings < r.rules.Connects {
		return
	}
	r.expel(now, unreachable, cmp.Or(reason, noConnection))
	r.byPings = true // a ping proves the opposite
}

// cause is what put a provider out of favour.
type cause uint8

const (
	nothing     cause = iota
	failing           // its answers, or its pings
	unreachable       // no connection
	refused           // it does not take the credential
)

// pinged is what became of one source's last pings.
type pinged struct {
	failed  int // in a row
	unmet   int // in a row without a connection
	refused bool
}

// least is the smallest value among the sources of pings; 0 without any. Where several sources ping, one of them may have trouble of its own.
func (r *record) least(of func(pinged) int) int {
	n := -1
	for _, p := range r.pings {
		if v := of(p); n < 0 || v < n {
			n = v
		}
	}
	return max(n, 0)
}

// ping takes one of a source's pings.
func (r *record) ping(now time.Time, source string, err error) {
	r.seen = true
	if r.pings == nil {
		r.pings = map[string]pinged{}
	}
	p := r.pings[source]
	refusal, isRefused := errors.AsType[*Refusal](err)
	miss, isMiss := errors.AsType[*Unreached](err)
	switch {
	case err == nil || isRefused && r.serves(now, refusal):
		r.pings[source] = pinged{}
		if r.out() && r.byPings {
			r.restore()
		}
		return
	case isRefused:
		p = pinged{refused: true}
	case isMiss:
		p = pinged{failed: p.failed + 1, unmet: p.unmet + 1}
	default:
		p = pinged{failed: p.failed + 1}
	}
	r.pings[source] = p
	if isRefused {
		r.pingRefused(now, refusal)
		return
	}
	if isMiss {
		r.missed(now, miss.Reason)
	}
	if failed := r.least(func(p pinged) int { return p.failed }); !r.out() && failed >= r.rules.Pings {
		r.expel(now, failing, fmt.Sprintf("%d pings in a row failed", failed))
		r.byPings = true
	}
}

// serves reports whether a provider that refuses pings serves requests all the same: a 403 may concern its list of models alone.
func (r *record) serves(now time.Time, refusal *Refusal) bool {
	good, _ := r.recent.count(now)
	return refusal.Status == http.StatusForbidden && good > 0 && !r.out()
}

// pingRefused decides after a ping whose credential was not taken.
func (r *record) pingRefused(now time.Time, refusal *Refusal) {
	one := func(p pinged) int {
		if p.refused {
			return 1
		}
		return 0
	}
	if r.least(one) == 0 {
		return
	}
	if r.cause != refused {
		r.expel(now, refused, "its credential is refused")
	}
	r.reason, r.byPings = cmp.Or(refusal.Reason, r.reason), true
}

func (r *record) expel(now time.Time, c cause, reason string) {
	r.cause, r.reason, r.byPings = c, reason, false
	r.pause = r.rules.Pause
	r.probeAt = now.Add(r.pause)
	r.release()
}

// restore starts afresh: what happened before must not count against a provider that is back.
func (r *record) restore() {
	r.cause, r.reason, r.byPings = nothing, "", false
	r.failures, r.unmet = 0, 0
	clear(r.pings)
	r.recent.clear()
	r.release()
}
