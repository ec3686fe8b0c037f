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

// What an agent may spend on a day is divided among its parts, where it says how much that is (004, section 9). Who says nothing is held
// to nothing, but what its parts spend is booked all the same.

// allowance is what a request may spend of its agent's budget. The zero value is of one that no budget holds.
type allowance struct {
	part   budget.Part
	limits budget.Budgets
	hold   budget.Hold
	left   policy.Micro // of the part's budget; budget.Unlimited for what is always paid for
	word   string       // what X-Bardo-Degraded says of it
}

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
	b := &x.allowance
	b.part, b.limits = part, budget.Compute(vitality, x.rt.Wallet.Daily(x.Hints.DailyBudget)).Under(x.rt.Wallet)
	use, err := x.gw.meter.Look(ctx, x.started, x.agent(), part)
	if err != nil {
		return err
	}
	d := b.limits.Decide(x.Hints.Subsystem, use, x.started)
	if b.left = d.Remaining; d.Action != budget.Downgrade || x.costsNothing() {
		return nil
	}
	x.tellExhausted(&d, use)
	x.Hints.Subsystem, b.word = budget.Routine, d.Degraded
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
	b := &x.allowance
	if b.part == budget.None {
		return nil
	}
	var use budget.Use
	decide := func(u budget.Use) budget.Decision {
		use = u
		return b.limits.Decide(x.Hints.Subsystem, u, x.started)
	}
	hold, d, err := x.gw.meter.Enter(ctx, x.started, x.agent(), b.part, x.worst(x.Order), decide)
	if err != nil {
		return err
	}
	b.hold, b.left = hold, d.Remaining
	if d.Action != budget.Refuse {
		return nil
	}
	if x.free(&x.Order[0]) {
		x.Order = slices.DeleteFunc(slices.Clone(x.Order), func(to policy.Resolution) bool { return !x.free(&to) })
		return nil
	}
	x.tellExhausted(&d, use)
	b.word = d.Degraded
	f := fault.Newf(fault.BudgetExceeded, "%s", d.Sentence(b.part, b.limits[b.part]))
	f.RetryAfter = d.Again
	return f
}

// account turns what the request held of its part's budget into what it was charged.
func (x *exchange) account(charged policy.Micro) {
	b := &x.allowance
	if u, ok := b.hold.Done(charged); ok && b.left != budget.Unlimited {
		b.left = max(b.limits[b.part]-u.Spent, 0)
	}
}

// budgetHeader says what is left of the part's budget, where there is one with an end.
func (x *exchange) budgetHeader(h header.List) header.List {
	if b := &x.allowance; b.part != budget.None && b.left != budget.Unlimited {
		h = append(h, header.Field{Name: headerBudget, Value: b.left.String()})
	}
	return h
}

// refusalHeaders say of an error what its agent should do instead. SDKs that try again by themselves are told not to: the budget is spent
// until tomorrow.
func (x *exchange) refusalHeaders(h header.List, f *fault.Fault) header.List {
	if x.allowance.word == "" {
		return h
	}
	h = append(x.budgetHeader(h), header.Field{Name: "x-bardo-degraded", Value: x.allowance.word})
	if f.Kind == fault.BudgetExceeded && f.RetryAfter > budget.Soon {
		h = append(h, header.Field{Name: "x-should-retry", Value: "false"})
	}
	return h
}

// affordsMore reports whether the agent's budget has room for what the gateway would do by itself in the name of another subsystem.
func (x *exchange) affordsMore(ctx context.Context, subsystem string) bool {
	b := &x.allowance
	if b.part == budget.None {
		return true
	}
	use, err := x.gw.meter.Look(ctx, x.started, x.agent(), budget.PartOf(subsystem))
	if err != nil {
		return false
	}
	d := b.limits.Decide(subsystem, use, x.started)
	return d.Action == budget.Serve
}

// keepToStake leaves staked credit out once the day's is used up: what it paid for is counted for all of the gateway's callers, and known
// a few seconds later.
func (x *exchange) keepToStake(ctx context.Context) error {
	if !x.Hints.DIEMAvailable || x.rt.Stake <= 0 || x.Request.Op != chat.Generate {
		return nil
	}
	use, err := x.gw.meter.Look(ctx, x.started, budget.Agent{}, budget.Stake)
	if err != nil || use.Spent < x.rt.Stake {
		return err
	}
	x.Hints.DIEMAvailable = false
	x.Request.Lost = wire.Named(slices.Clip(x.Request.Lost), lostStake)
	return nil
}

// lostStake is what X-Bardo-Degraded says where staked credit is used up.
const lostStake = "diem_available"

// stakedBy is what staked credit paid for in a request, at its provider's prices.
func (x *exchange) stakedBy(a *answer) policy.Micro {
	var worth policy.Pico
	add := func(to *policy.Resolution, u *chat.Usage) {
		if p := to.Staked; p != nil {
			worth += p.Cost(u.Input, u.Cached, u.CacheWrite, u.CacheWrite1h, u.Output) + p.PerSearch*policy.Pico(u.Searches)
		}
	}
	for i := range x.calls {
		add(&x.calls[i].to, &x.calls[i].usage)
	}
	if !a.counted {
		u := a.total(x.Request.InputTokens)
		add(&a.res, &u)
	}
	return worth.Charge(0)
}

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
	b := &x.allowance
	x.gw.Events.Emit(eventBudget, x.Principal.Account, budgetExhausted{
		x.ID, x.Hints.GolemID, x.Hints.Subsystem, b.part.String(), d.Degraded, b.limits[b.part], u.Spent, u.Held,
	})
}
