package extproc

import (
	"context"
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/intent"
)

// An agent that states its daily budget has it divided among its subsystems. Without one there is no limit, but the spending of each is still
// recorded.

// headerBudget is what is left today of the budget that the request uses.
const headerBudget = "x-bardo-budget-remaining"

// keepToBudget finds what the request may spend, where its caller states a daily budget. Heartbeats of tier T2 are routed as T1 once their budget is
// spent, unless the answer is free.
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
	b.Part, b.Limits = part, budget.Compute(vitality, x.Config.Wallet.Daily(x.Hints.DailyBudget)).Under(x.Config.Wallet)
	use, err := x.gw.meter.Budgets.Look(ctx, x.Started, x.Agent(), part)
	if err != nil {
		return err
	}
	d := b.Limits.Decide(x.Hints.Subsystem, use, x.Started)
	if b.Left = d.Remaining; d.Action != budget.Downgrade || x.FirstIsFree() {
		return nil
	}
	x.tellExhausted(&d, use)
	x.Hints.Subsystem, b.Degraded = budget.Routine, d.Degraded
	return nil
}

// spend reserves the request's highest cost in its subsystem's budget, or refuses the request once that is spent. A request whose first candidate is
// free is served by the free ones.
func (x *exchange) spend(ctx context.Context) error {
	b := &x.bill.Allowance
	if b.Part == budget.None {
		return nil
	}
	d, use, err := b.Enter(ctx, x.gw.meter, x.Started, x.Agent(), x.Hints.Subsystem, x.worst(x.Order))
	if err != nil || d.Action != budget.Refuse {
		return err
	}
	if x.IsFree(&x.Order[0]) {
		x.Order = slices.DeleteFunc(slices.Clone(x.Order), func(to policy.Resolution) bool { return !x.IsFree(&to) })
		return nil
	}
	x.tellExhausted(&d, use)
	b.Degraded = d.Degraded
	f := fault.Newf(fault.BudgetExceeded, "%s", d.Sentence(b.Part, b.Limits[b.Part]))
	f.RetryAfter = d.Again
	return f
}

// budgetHeader appends what is left of the subsystem's budget, where that is limited.
func (x *exchange) budgetHeader(h header.List) header.List {
	if b := &x.bill.Allowance; b.Limited() {
		h = append(h, header.Field{Name: headerBudget, Value: b.Left.String()})
	}
	return h
}

// refusalHeaders append to an error what its agent should do instead. SDKs must not retry: the budget is spent until tomorrow.
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

// affordsMore reports whether the budget of a subsystem has room for a call that the gateway makes on its behalf.
func (x *exchange) affordsMore(ctx context.Context, subsystem string) bool {
	b := &x.bill.Allowance
	if b.Part == budget.None {
		return true
	}
	use, err := x.gw.meter.Budgets.Look(ctx, x.Started, x.Agent(), budget.PartOf(subsystem))
	if err != nil {
		return false
	}
	d := b.Limits.Decide(subsystem, use, x.Started)
	return d.Action == budget.Serve
}

// keepToStake stops the use of staked credit once the day's is used up. Its use is counted for all callers, and known a few seconds later.
func (x *exchange) keepToStake(ctx context.Context) error {
	if !x.Hints.DIEMAvailable || x.Config.Stake <= 0 || x.Request.Op != chat.Generate {
		return nil
	}
	use, err := x.gw.meter.Budgets.Look(ctx, x.Started, budget.Agent{}, budget.Stake)
	if err != nil || use.Spent < x.Config.Stake {
		return err
	}
	x.Hints.DIEMAvailable = false
	x.Request.Dropped = wire.AppendDegraded(slices.Clip(x.Request.Dropped), lostStake)
	return nil
}

// lostStake is what X-Bardo-Degraded says once staked credit is used up.
const lostStake = "diem_available"

// spentByAgent reads what an agent's subsystems were charged on a day.
func (g *Gateway) spentByAgent(ctx context.Context, a budget.Agent, day time.Time) (map[string]policy.Micro, error) {
	return g.Ledger.SpentByPart(ctx, a.Account, a.ID, day)
}

// What the searches of the web of a dream cycle may cost (I-10). A dream beyond it is dreamt without.

// partDream is the part of an agent whose searches have a budget.
const partDream = "dream"

// holdSearch sets the price of the request's search aside. It is for where the gateway itself asks for the search: what a client asks for in
// its provider's words is the client's.
func (x *exchange) holdSearch() {
	if !request.WantsSearch(x.Request) || intent.Root(x.Hints.Subsystem) != partDream {
		return
	}
	var cost policy.Pico
	for i := range x.Found {
		cost = max(cost, x.Found[i].Prices.PerSearch.Times(x.MaxSearches(&x.Found[i])))
	}
	cycle := budget.Cycle{Agent: budget.Agent{Account: x.Principal.Account, ID: x.Hints.GolemID}, ID: x.Hints.DreamCycleID}
	if cycle.ID == "" { // an agent that names no cycle has one a day
		cycle.ID = x.Started.UTC().Format("2006-01-02")
	}
	if amount := cost.Charge(0); amount > 0 && !x.bill.HoldSearch(&x.gw.searches, cycle, amount, x.Config.SearchBudget) {
		x.NoSearch = true
	}
}
