package health

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// record is the health of one provider. Its methods decide; Tracker locks.
type record struct {
	rules *Options

	recent    window
	latency   latencies
	seen      bool // a result or a ping was received
	disabled  bool
	coolUntil time.Time

	failures    int                    // consecutive
	unconnected int                    // consecutive attempts without a connection
	pings       map[string]pingResults // by source

	cause    cause  // why it is down
	reason   string // text; "" if it is not down
	byPings  bool   // also or only by pings: a successful ping ends it
	pause    time.Duration
	probeAt  time.Time // time of the next trial request
	leaseEnd time.Time // end of the current trial's lease; zero if there is none
	claims   int       // number of the current claim

	directive directive // from the control plane, if there is one
}

// out reports whether it is down by local results.
func (r *record) out() bool { return r.reason != "" }

// down reports whether it is down by local results or the control plane's directive.
func (r *record) down() bool { return r.out() || r.directive.out() }

// off reports whether an operator has disabled it.
func (r *record) off() bool { return r.disabled || r.directive.state == Disabled }

func (r *record) cooling(now time.Time) bool { return now.Before(r.coolsUntil()) }

func (r *record) coolsUntil() time.Time {
	if r.directive.coolUntil.After(r.coolUntil) {
		return r.directive.coolUntil
	}
	return r.coolUntil
}

// priority is the sort key of providers: lower ones come first.
func (r *record) priority(now time.Time) int {
	switch {
	case r.down():
		return 2
	case r.cooling(now):
		return 1
	default:
		return 0
	}
}

// probing reports whether a trial is in flight. Its lease expires if there is no result.
func (r *record) probing(now time.Time) bool { return now.Before(r.leaseEnd) }

// claim takes the trial if it is due and free. If the control plane considers the provider down, it decides when a trial is due.
func (r *record) claim(now time.Time) bool {
	if r.directive.connected && r.directive.out() {
		if !r.directive.granted {
			return false
		}
		r.directive.granted, r.directive.trying = false, true
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

// report records the outcome of an attempt, and returns whether the provider should be pinged soon.
func (r *record) report(now time.Time, res Result) (look bool) {
	r.seen = true
	if res.Kind != Unreachable && res.Kind != Ignored {
		r.unconnected = 0
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
		return r.failures == 1 // for an attempt that Envoy retried, it is unknown whether there was a connection
	case Unreachable:
		r.failures++
		r.unconnected++
		r.recent.add(now, false)
		r.fail(now)
		r.missed(now, res.Reason)
		return r.unconnected == 1
	case Refused:
		r.recent.add(now, false)
		look = r.cause != refused
		r.refuse(now, res.Reason)
	case RateLimited:
		// Rate-limited is not down. The trial is free again after the cooldown.
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

// delay doubles the pause after a failed trial.
func (r *record) delay(now time.Time) {
	if !r.probing(now) {
		return
	}
	r.pause = min(2*r.pause, r.rules.MaxPause)
	r.probeAt = now.Add(r.pause)
	r.release()
}

// refuse records that a provider refused the credential.
func (r *record) refuse(now time.Time, reason string) {
	if r.cause == refused {
		r.delay(now)
		if !r.byPings && len(reason) > len(r.reason) {
			r.reason = reason // from Envoy only the status of a failed attempt is known
		}
		return
	}
	r.expel(now, refused, cmp.Or(reason, "its credential is refused"))
}

// missed decides after an attempt or ping without a connection. Requests of all sources count, and pings of the source with the fewest failures.
func (r *record) missed(now time.Time, reason string) {
	pings := r.minPings(func(p pingResults) int { return p.unmet })
	if r.out() || r.unconnected+pings < r.rules.Connects {
		return
	}
	r.expel(now, unreachable, cmp.Or(reason, noConnection))
	r.byPings = true // a successful ping ends it
}

// cause is why a provider is down.
type cause uint8

const (
	nothing     cause = iota
	failing           // failed answers or pings
	unreachable       // no connection
	refused           // the credential is refused
)

// pingResults are one source's last pings.
type pingResults struct {
	failed  int // consecutive
	unmet   int // consecutive, without a connection
	refused bool
}

// minPings is the smallest value over the sources of pings, 0 without any: one of several sources may have network problems of its own.
func (r *record) minPings(of func(pingResults) int) int {
	n := -1
	for _, p := range r.pings {
		if v := of(p); n < 0 || v < n {
			n = v
		}
	}
	return max(n, 0)
}

// ping records a ping of a source.
func (r *record) ping(now time.Time, source string, err error) {
	r.seen = true
	if r.pings == nil {
		r.pings = map[string]pingResults{}
	}
	p := r.pings[source]
	refusal, isRefused := errors.AsType[*Refusal](err)
	miss, isMiss := errors.AsType[*Unreached](err)
	switch {
	case err == nil || isRefused && r.serves(now, refusal):
		r.pings[source] = pingResults{}
		if r.out() && r.byPings {
			r.restore()
		}
		return
	case isRefused:
		p = pingResults{refused: true}
	case isMiss:
		p = pingResults{failed: p.failed + 1, unmet: p.unmet + 1}
	default:
		p = pingResults{failed: p.failed + 1}
	}
	r.pings[source] = p
	if isRefused {
		r.pingRefused(now, refusal)
		return
	}
	if isMiss {
		r.missed(now, miss.Reason)
	}
	if failed := r.minPings(func(p pingResults) int { return p.failed }); !r.out() && failed >= r.rules.Pings {
		r.expel(now, failing, fmt.Sprintf("%d pings in a row failed", failed))
		r.byPings = true
	}
}

// serves reports whether a provider that refuses pings still serves requests: a 403 may only concern the list of models.
func (r *record) serves(now time.Time, refusal *Refusal) bool {
	good, _ := r.recent.count(now)
	return refusal.Status == http.StatusForbidden && good > 0 && !r.out()
}

// pingRefused decides after a ping whose credential was refused.
func (r *record) pingRefused(now time.Time, refusal *Refusal) {
	one := func(p pingResults) int {
		if p.refused {
			return 1
		}
		return 0
	}
	if r.minPings(one) == 0 {
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

// restore clears the history of a provider that works again.
func (r *record) restore() {
	r.cause, r.reason, r.byPings = nothing, "", false
	r.failures, r.unconnected = 0, 0
	clear(r.pings)
	r.recent.clear()
	r.release()
}
