package health

import (
	"cmp"
	"slices"
	"time"

	"bardo.money/gateway/policy"
)

// State is the name of a provider's health.
type State string

// The states.
const (
	Unknown  State = "unknown"  // no result yet
	Healthy  State = "healthy"  // working
	Degraded State = "degraded" // rate-limited: behind the others during its cooldown
	Down     State = "down"     // failing: last in the order, except for trial requests
	Disabled State = "disabled" // disabled by an operator

	CredentialRefused State = "credential_refused" // down, because it refuses the gateway's credential
)

// Out reports whether a provider in this state is last in the order.
func (s State) Out() bool { return s == Down || s == CredentialRefused }

// Status is the health of one provider.
type Status struct {
	Provider  policy.ProviderID
	State     State
	Reason    string        // why it is down
	Requests  int           // in the window
	ErrorRate float64       // of those, 0 to 1
	Latency   time.Duration // median of recent requests; 0 if unknown
	CoolUntil time.Time     // end of the cooldown; zero if there is none
}

// Snapshot is the status of every tracked provider, by name.
func (t *Tracker) Snapshot(now time.Time) []Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Status, 0, len(t.records))
	for id, r := range t.records {
		out = append(out, r.status(now, id))
	}
	slices.SortFunc(out, func(a, b Status) int { return cmp.Compare(a.Provider, b.Provider) })
	return out
}

func (r *record) status(now time.Time, id policy.ProviderID) Status {
	good, bad := r.recent.count(now)
	s := Status{Provider: id, State: r.state(now), Reason: cmp.Or(r.reason, r.directive.reason), Requests: good + bad, Latency: r.latency.median()}
	if s.Requests > 0 {
		s.ErrorRate = float64(bad) / float64(s.Requests)
	}
	if r.cooling(now) {
		s.CoolUntil = r.coolsUntil()
	}
	return s
}

func (r *record) state(now time.Time) State {
	switch {
	case r.off():
		return Disabled
	case r.cause == refused || !r.out() && r.directive.state == CredentialRefused:
		return CredentialRefused
	case r.down():
		return Down
	case r.cooling(now):
		return Degraded
	case r.seen || r.directive.state == Healthy:
		return Healthy
	default:
		return Unknown
	}
}
