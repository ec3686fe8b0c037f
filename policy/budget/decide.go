package budget

import (
	"fmt"
	"time"

	"bardo.money/gateway/policy"
)

// Action is what becomes of a request.
type Action uint8

// The actions.
const (
	Serve     Action = iota
	Downgrade        // it is served as a routine heartbeat
	Refuse           // its agent does without an answer
)

// degradation is what becomes of a subsystem's requests once its budget is spent.
type degradation uint8

const (
	never      degradation = iota // it is served all the same
	lower                         // tier T2 becomes T1, which stays
	skip                          // a cycle is left out: there will be another
	rules                         // deterministic rules decide, without a model
	heuristics                    // so do static heuristics
)

// degradations are the words of X-Bardo-Degraded, and what the agent should do.
var degradations = [...]struct{ word, advice string }{
	never:      {},
	lower:      {Lowered, "it is served as " + Routine},
	skip:       {"budget:skip_cycle", "skip this cycle: there will be another"},
	rules:      {"budget:occ_rules", "fall back to the deterministic OCC rules"},
	heuristics: {"budget:static_heuristics", "fall back to static heuristics"},
}

const (
	// Deliberate is the subsystem that gives way once the heartbeats' budget is spent.
	Deliberate = "heartbeat_t2"
	// Routine is what it is served as.
	Routine = "heartbeat_t1"
	// Lowered is what X-Bardo-Degraded says of that.
	Lowered = "tier:t2->t1"
)

// Soon is when to come again for what other requests of the same agent hold.
const Soon = time.Second

// Use is what a part spent on a day, and what its requests under way may yet cost.
type Use struct{ Spent, Held policy.Micro }

// Decision is what becomes of a request, and what to tell about it.
type Decision struct {
	Action    Action
	Degraded  string        // the word of X-Bardo-Degraded; "" for what is served as it is
	Advice    string        // what the agent should do; "" for what is served as it is
	Remaining policy.Micro  // of the part's budget, at least 0; Unlimited for what is always paid for
	Again     time.Duration // when a refused request may come again
}

// Decide says what becomes of a request of a subsystem whose part has used so much: the table of X-12. A request that crosses
// the line completes; what others under way may yet cost counts as spent until it is known.
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
		d.Action, d.Degraded, d.Advice = Downgrade, degradations[s].word, degradations[s].advice
	case skip, rules, heuristics:
		d.Action, d.Degraded, d.Advice = Refuse, degradations[s].word, degradations[s].advice
		if d.Again = Soon; d.Remaining == 0 {
			d.Again = tomorrow(now).Sub(now)
		}
	}
	return d
}

// Sentence tells an agent why its request was not served, and what to do.
func (d *Decision) Sentence(p Part, limit policy.Micro) string {
	if d.Remaining > 0 {
		return fmt.Sprintf("the requests under way hold what is left of this agent's budget for %s, %s USD: %s, or try again", p, limit, d.Advice)
	}
	return fmt.Sprintf("this agent's budget for %s, %s USD of today's, is spent: %s; it begins anew at 00:00 UTC", p, limit, d.Advice)
}

// tomorrow is the beginning of the next UTC day.
func tomorrow(now time.Time) time.Time { return now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour) }
