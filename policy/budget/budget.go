// Package budget divides what an agent may spend on a day among its parts, and says what becomes of a request whose part has spent its
// own. Deciding is pure. A Meter counts what agents spent; it knows neither prices, nor where charges are booked.
package budget

import (
	"math"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Part is one of the nine among which a day's budget is divided. The zero value is none: no budget holds it.
type Part uint8

// The subsystems that have a budget of their own.
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

// Stake is what a meter counts besides the parts: the operator's staked credit, of an agent without a name. No budget holds it.
const Stake Part = parts

// share is a part's part of the day's budget.
type share struct {
	name string
	of   float64 // of the day's budget
	bend float64 // how much of it goes as life does
	// Firm is set where a wallet that earns too little does not cut it.
	firm bool
	// fund is set for what is always paid for.
	fund  bool
	spent degradation
}

// shares are the budgets of X-12, with what becomes of requests once they are spent.
var shares = [parts]share{
	Heartbeat: {name: "heartbeat", of: 0.20, bend: 0.5, spent: lower},
	Risk:      {name: "risk", of: 0.15, firm: true}, // never reduced
	Dream:     {name: "dream", of: 0.15, bend: 0.3, spent: skip},
	Daimon:    {name: "daimon", of: 0.05, bend: 0.7, spent: rules},
	Context:   {name: "context", of: 0.10, bend: 0.5, spent: heuristics},
	Curator:   {name: "curator", of: 0.10, bend: 0.3, spent: skip},
	Playbook:  {name: "playbook", of: 0.05, bend: 0.5, spent: skip},
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

// own are the subsystems whose part is not that of their intent: context has a budget of its own, and the compaction of a session, which
// makes what follows cheaper, has none.
var own = map[string]Part{"context": Context, "session_compact": None, "session": None}

// roots are the parts of intents.
var roots = map[string]Part{
	"heartbeat_t0": Heartbeat, "heartbeat_t1": Heartbeat, "heartbeat_t2": Heartbeat, "risk": Risk, "dream": Dream, "daimon": Daimon,
	"daimon_complex": Daimon, "curator": Curator, "playbook": Playbook, "operator": Operator, "death": Death,
}

// PartOf is the part whose budget a subsystem uses, None for a request of no agent's. Finer names use that of their intent (D-04), and
// those that nobody has described that of a routine heartbeat.
func PartOf(subsystem string) Part {
	if subsystem == "" {
		return None
	}
	if p, ok := own[subsystem]; ok {
		return p
	}
	return roots[intent.Root(subsystem)]
}

// Unlimited is the budget of what is always paid for.
const Unlimited = policy.Micro(math.MaxInt64)

// Budgets are what each part may spend on a day.
type Budgets [parts]policy.Micro

// Compute divides a day's budget among the parts: vitality is the remaining lifespan, 0 to 1. What an agent cannot do without is never
// reduced, and its death is always paid for.
func Compute(vitality float64, daily policy.Micro) Budgets {
	if math.IsNaN(vitality) {
		vitality = 1
	}
	pressure := 1 - min(max(vitality, 0), 1)
	var b Budgets
	for p := Heartbeat; p < parts; p++ {
		s := &shares[p]
		b[p] = micro(float64(max(daily, 0)) * s.of * (1 - pressure*s.bend))
		if s.fund {
			b[p] = Unlimited
		}
	}
	return b
}

// Under are the budgets as a wallet can afford them: more of everything where it earns far more than it spends, less where it earns too
// little, but for what is never cut.
func (b Budgets) Under(w Wallet) Budgets {
	pct := w.Percent()
	for p := Heartbeat; p < parts; p++ {
		if b[p] == Unlimited || pct < 100 && shares[p].firm {
			continue
		}
		b[p] = micro(float64(b[p]) * float64(pct) / 100)
	}
	return b
}

// micro is an amount to the nearest base unit. A budget is a wish, not money: it may be rounded.
func micro(f float64) policy.Micro {
	return policy.Micro(math.Round(min(f, 1e15)))
}
