package budget

import (
	"fmt"
	"time"

	"bardo.money/gateway/policy"
)

// Action is what happens to a request.
type Action uint8

// The actions.
const (
	Serve     Action = iota
	Downgrade        // served as a routine heartbeat
	Refuse           // not served
)

// degradation is what happens to a subsystem's requests once its budget is used up.
type degradation uint8

const (
	never      degradation = iota // served anyway
	lower                         // tier T2 becomes T1, which is served
	skip                          // the cycle is skipped
	rules                         // the agent uses deterministic rules instead of a model
	heuristics                    // the agent uses static heuristics
)

// degradations are the values for X-Bardo-Degraded and the advice to the agent.
var degradations = [...]struct{ value, advice string }{
	never:      {},
	lower:      {Lowered, "it is served as " + Routine},
	skip:       {"budget:skip_cycle", "skip this cycle: there will be another"},
	rules:      {"budget:occ_rules", "fall back to the deterministic OCC rules"},
	heuristics: {"budget:static_heuristics", "fall back to static heuristics"},
}

const (
	// Deliberate is the subsystem that is downgraded once the heartbeats' budget is used up.
	Deliberate = "heartbeat_t2"
	// Routine is the subsystem that it is served as.
	Routine = "heartbeat_t1"
	// Lowered is the value in X-Bardo-Degraded for it.
	Lowered = "tier:t2->t1"
)

// Soon is the Retry-After while other requests of the agent reserve its budget.
const Soon = time.Second

// Use is a part's spending of a day, and the maximum cost of its requests in flight.
type Use struct{ Spent, Held policy.Micro }

// Decision is what happens to a request, and its explanation.
type Decision struct {
	Action     Action
	Degraded   string        // value for X-Bardo-Degraded; "" if served normally
	Advice     string        // advice to the agent; "" if served normally
	Remaining  policy.Micro  // of the part's budget, at least 0; may be Unlimited
	RetryAfter time.Duration // Retry-After of a refused request
}

// Decide decides about a request of a subsystem whose part has used u, by the table of X-12. A request that crosses the limit completes; the maximum
// costs of requests in flight count as spent.
func (b Budgets) Decide(subsystem string, u Use, now time.Time) Decision {
	p := PartOf(subsystem)
	d := Decision{Remaining: Unlimited}
	if p == None || b[p] == Unlimited {
		return d
	}
	d.Remaining = max(b[p]-u.Spent, 0)
	if d.Remaining > u.Held {
		return d
	}
	switch s := shares[p].spent; s {
	case never:
		return d
	case lower:
		if subsystem != Deliberate {
			return d
		}
		d.Action, d.Degraded, d.Advice = Downgrade, degradations[s].value, degradations[s].advice
	case skip, rules, heuristics:
		d.Action, d.Degraded, d.Advice = Refuse, degradations[s].value, degradations[s].advice
		if d.RetryAfter = Soon; d.Remaining == 0 {
			d.RetryAfter = tomorrow(now).Sub(now)
		}
	}
	return d
}

// Sentence is the message to the agent about a refused request.
func (d *Decision) Sentence(p Part, limit policy.Micro) string {
	if d.Remaining > 0 {
		return fmt.Sprintf("the requests under way hold what is left of this agent's budget for %s, %s USD: %s, or try again", p, limit, d.Advice)
	}
	return fmt.Sprintf("this agent's budget for %s, %s USD of today's, is spent: %s; it begins anew at 00:00 UTC", p, limit, d.Advice)
}

// tomorrow returns the start of the next UTC day.
func tomorrow(now time.Time) time.Time { return now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour) }
