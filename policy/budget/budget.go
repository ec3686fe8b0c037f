// Package budget divides an agent's daily budget among its subsystems, and decides what happens to a request whose subsystem has used up its
// share. The decision is pure. A Meter counts spending; it does not know prices or the store.
package budget

import (
	"math"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Part is one of the nine shares of a daily budget. The zero value has no budget.
type Part uint8

// The subsystems with their own budget.
const (
	None Part = iota
	Heartbeat
	Risk
	Dream
	Daimon
	Context
	Curator
	Playbook
	Operator
	Death

	parts = iota
)

// Stake counts separately from the parts: spending of the operator's staked credit, which belongs to no agent and no budget.
const Stake Part = parts

// share is a part's share of the daily budget.
type share struct {
	name           string
	of             float64 // fraction of the daily budget
	vitalityWeight float64 // how much of it is reduced as vitality falls
	// firm: a wallet that earns too little does not reduce it.
	firm bool
	// fund: it is always paid for.
	fund  bool
	spent degradation
}

// shares are the budgets of X-12, and what happens to requests once they are used up.
var shares = [parts]share{
	Heartbeat: {name: "heartbeat", of: 0.20, vitalityWeight: 0.5, spent: lower},
	Risk:      {name: "risk", of: 0.15, firm: true}, // never reduced
	Dream:     {name: "dream", of: 0.15, vitalityWeight: 0.3, spent: skip},
	Daimon:    {name: "daimon", of: 0.05, vitalityWeight: 0.7, spent: rules},
	Context:   {name: "context", of: 0.10, vitalityWeight: 0.5, spent: heuristics},
	Curator:   {name: "curator", of: 0.10, vitalityWeight: 0.3, spent: skip},
	Playbook:  {name: "playbook", of: 0.05, vitalityWeight: 0.5, spent: skip},
	Operator:  {name: "operator", of: 0.15}, // never reduced
	Death:     {name: "death", firm: true, fund: true},
}

// String is the part's name, "" for none.
func (p Part) String() string {
	switch {
	case p == Stake:
		return "stake"
	case p > Stake:
		return ""
	}
	return shares[p].name
}

// ParsePart reads a part by its name; None for any other.
func ParsePart(name string) Part {
	for p := Heartbeat; p < parts; p++ {
		if shares[p].name == name {
			return p
		}
	}
	return None
}

// subsystemParts are the subsystems whose part is not that of their intent: context has its own budget, and the compaction of a session, which makes
// later requests cheaper, has none.
var subsystemParts = map[string]Part{"context": Context, "session_compact": None, "session": None}

// intentParts are the parts of intents.
var intentParts = map[string]Part{
	"heartbeat_t0": Heartbeat, "heartbeat_t1": Heartbeat, "heartbeat_t2": Heartbeat, "risk": Risk, "dream": Dream, "daimon": Daimon,
	"daimon_complex": Daimon, "curator": Curator, "playbook": Playbook, "operator": Operator, "death": Death,
}

// PartOf returns the part whose budget a subsystem uses, None for "". Aliases use their intent's part (D-04), unknown subsystems that of a routine
// heartbeat.
func PartOf(subsystem string) Part {
	if subsystem == "" {
		return None
	}
	if p, ok := subsystemParts[subsystem]; ok {
		return p
	}
	return intentParts[intent.Root(subsystem)]
}

// Unlimited is the budget of a part that is always paid for.
const Unlimited = policy.Micro(math.MaxInt64)

// Budgets is what each part may spend per day.
type Budgets [parts]policy.Micro

// Compute divides a daily budget among the parts. vitality is the remaining lifespan, 0 to 1. Risk and operator are never reduced, and death is
// always paid for.
func Compute(vitality float64, daily policy.Micro) Budgets {
	if math.IsNaN(vitality) {
		vitality = 1
	}
	pressure := 1 - min(max(vitality, 0), 1)
	var b Budgets
	for p := Heartbeat; p < parts; p++ {
		s := &shares[p]
		b[p] = micro(float64(max(daily, 0)) * s.of * (1 - pressure*s.vitalityWeight))
		if s.fund {
			b[p] = Unlimited
		}
	}
	return b
}

// ScaledBy scales the budgets by a wallet's sustainability: up if it earns far more than it spends, down, except firm parts, if it earns too little.
func (b Budgets) ScaledBy(w Wallet) Budgets {
	pct := w.Percent()
	for p := Heartbeat; p < parts; p++ {
		if b[p] == Unlimited || pct < 100 && shares[p].firm {
			continue
		}
		b[p] = micro(float64(b[p]) * float64(pct) / 100)
	}
	return b
}

// micro rounds an amount to base units. Budgets are limits, so rounding is allowed.
func micro(f float64) policy.Micro {
	return policy.Micro(math.Round(min(f, 1e15)))
}
