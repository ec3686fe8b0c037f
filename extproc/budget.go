package extproc

import (
	"context"
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/intent"
)

// What an agent may spend on a day is divided among its parts, where it says how much that is. Who says nothing is held
// to nothing, but what its parts spend is booked all the same.

// headerBudget says what is left today of the budget that a request uses.
const headerBudget = "x-bardo-budget-remaining"

// agent is who the request's money is spent for.
func (x *exchange) agent() budget.Agent {
	return budget.Agent{Account: x.Principal.Account, ID: x.Hints.GolemID}
}

// keepToBudget finds out what the request may spend, where its caller says what its day may cost. What the second tier of heartbeats was
// asked for is decided as the first tier's from here on once their budget is spent, unless its answer costs nothing anyway.
func (x *exchange) keepToBudget(ctx context.Context) error {
	part := budget.PartOf(x.Hints.Subsystem)
	if x.Hints.DailyBudget <= 0 || part == budget.None || x.Request.Op != chat.Generate {
		return nil
	}
	vitality, ok := intent.VitalityOf(&x.Hints)
	if !ok {
		vitality = 1
	}
	b := &x.bill.Allowance
	b.Part, b.Limits = part, budget.Compute(vitality, x.rt.Wallet.Daily(x.Hints.DailyBudget)).Under(x.rt.Wallet)
	use, err := x.gw.meter.Budgets.Look(ctx, x.started, x.agent(), part)
	if err != nil {
		return err
	}
	d := b.Limits.Decide(x.Hints.Subsystem, use, x.started)
	if b.Left = d.Remaining; d.Action != budget.Downgrade || x.costsNothing() {
		return nil
	}
	x.tellExhausted(&d, use)
	x.Hints.Subsystem, b.Degraded = budget.Routine, d.Degraded
	return nil
}

// costsNothing reports whether the request's first choice is free of charge.
func (x *exchange) costsNothing() bool {
	f := hint.Facts(x.Request, int64(x.Request.MaxTokens))
	built := x.rt.needs(&x.Hints, &f, &x.Principal)
	d := x.rt.Resolver.Decide(&built.Intent)
	return d.Err == nil && len(d.Order) > 0 && x.free(&d.Order[0])
}

// free reports whether an answer of a candidate costs the caller nothing here: staked credit or its own key pays for it, or it has no
// price.
func (x *exchange) free(to *policy.Resolution) bool {
	p := &to.Prices
	return x.direct(to.Provider) || p.Known && p.Input|p.Output|p.CachedInput|p.CacheWrite|p.CacheWrite1h == 0 && p.PerRequest|p.PerSearch == 0
}

// spend holds the most that the request may cost against its part's budget, or refuses it once that is spent. What costs nothing is
// served all the same, by those alone that ask for nothing.
func (x *exchange) spend(ctx context.Context) error {
	b := &x.bill.Allowance
	if b.Part == budget.None {
		return nil
	}
	d, use, err := b.Enter(ctx, x.gw.meter, x.started, x.agent(), x.Hints.Subsystem, x.worst(x.Order))
	if err != nil || d.Action != budget.Refuse {
		return err
	}
	if x.free(&x.Order[0]) {
		x.Order = slices.DeleteFunc(slices.Clone(x.Order), func(to policy.Resolution) bool { return !x.free(&to) })
		return nil
	}
	x.tellExhausted(&d, use)
	b.Degraded = d.Degraded
	f := fault.Newf(fault.BudgetExceeded, "%s", d.Sentence(b.Part, b.Limits[b.Part]))
	f.RetryAfter = d.Again
	return f
}

// budgetHeader says what is left of the part's budget, where there is one with an end.
func (x *exchange) budgetHeader(h header.List) header.List {
	if b := &x.bill.Allowance; b.Limited() {
		h = append(h, header.Field{Name: headerBudget, Value: b.Left.String()})
	}
	return h
}

// refusalHeaders say of an error what its agent should do instead. SDKs that try again by themselves are told not to: the budget is spent
// until tomorrow.
func (x *exchange) refusalHeaders(h header.List, f *fault.Fault) header.List {
	if x.bill.Allowance.Degraded == "" {
		return h
	}
	h = append(x.budgetHeader(h), header.Field{Name: "x-bardo-degraded", Value: x.bill.Allowance.Degraded})
	if f.Kind == fault.BudgetExceeded && f.RetryAfter > budget.Soon {
		h = append(h, header.Field{Name: "x-should-retry", Value: "false"})
	}
	return h
}

// affordsMore reports whether the agent's budget has room for what the gateway would do by itself in the name of another subsystem.
func (x *exchange) affordsMore(ctx context.Context, subsystem string) bool {
	b := &x.bill.Allowance
	if b.Part == budget.None {
		return true
	}
	use, err := x.gw.meter.Budgets.Look(ctx, x.started, x.agent(), budget.PartOf(subsystem))
	if err != nil {
		return false
	}
	d := b.Limits.Decide(subsystem, use, x.started)
	return d.Action == budget.Serve
}

// keepToStake leaves staked credit out once the day's is used up: what it paid for is counted for all of the gateway's callers, and known
// a few seconds later.
func (x *exchange) keepToStake(ctx context.Context) error {
	if !x.Hints.DIEMAvailable || x.rt.Stake <= 0 || x.Request.Op != chat.Generate {
		return nil
	}
	use, err := x.gw.meter.Budgets.Look(ctx, x.started, budget.Agent{}, budget.Stake)
	if err != nil || use.Spent < x.rt.Stake {
		return err
	}
	x.Hints.DIEMAvailable = false
	x.Request.Lost = wire.Named(slices.Clip(x.Request.Lost), lostStake)
	return nil
}

// lostStake is what X-Bardo-Degraded says where staked credit is used up.
const lostStake = "diem_available"

// spentByAgent reads what the parts of an agent were charged.
func (g *Gateway) spentByAgent(ctx context.Context, a budget.Agent, day time.Time) (map[string]policy.Micro, error) {
	return g.Ledger.SpentByPart(ctx, a.Account, a.ID, day)
}

// eventBudget tells that a part of an agent has spent its budget.
const eventBudget = "inference:budget_exhausted"

type budgetExhausted struct {
	RequestID string       `json:"request_id"`
	GolemID   string       `json:"golem_id,omitempty"`
	Subsystem string       `json:"subsystem"`
	Part      string       `json:"part"`
	Degraded  string       `json:"degraded"`
	Budget    policy.Micro `json:"budget_usd"`
	Spent     policy.Micro `json:"spent_usd"`
	Held      policy.Micro `json:"held_usd"` // by requests under way
}

func (x *exchange) tellExhausted(d *budget.Decision, u budget.Use) {
	if !x.gw.Events.On() {
		return
	}
	b := &x.bill.Allowance
	x.gw.Events.Emit(eventBudget, x.Principal.Account, budgetExhausted{
		x.ID, x.Hints.GolemID, x.Hints.Subsystem, b.Part.String(), d.Degraded, b.Limits[b.Part], u.Spent, u.Held,
	})
}
