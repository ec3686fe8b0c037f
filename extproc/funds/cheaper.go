package funds

import (
	"context"
	"slices"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// A request that does not fit into its budgets is served by a cheaper model of the operator's ladder (D-55), and one that its balance does not pay for by a free
// model (B-20), where the configuration says so. Both are shown: in X-Bardo-Degraded, the record and an event. Risk, operator and death are never served by
// another model than the one that was asked for.

// lostModel begins what X-Bardo-Degraded says of a request that a cheaper model serves, and lostFree of one that a free model serves. The models follow.
const (
	lostModel = "model:"
	lostFree  = "free_model:"
)

// Afford makes sure that the request can be paid for, by a cheaper model where need be. rank puts candidates in the order in which they are called. The error is
// that of the model that was asked for.
func (f *Funds) Afford(ctx context.Context, rank func([]policy.Resolution) []policy.Resolution) error {
	why := f.affordAsked(ctx)
	if why == nil && f.floor != nil {
		f.downgrade(f.floor.asked, lostFree, f.floor.why)
	}
	if !isMoneyFault(why) {
		return why
	}
	asked := f.Order
	word, steps := f.steps(fault.From(why).Kind)
	for _, order := range steps {
		if f.Order = rank(order); len(f.Order) == 0 {
			continue
		}
		err := f.affordInstead(ctx, word == lostFree)
		if err == nil {
			f.downgrade(asked[0].Model, word, fault.From(why))
			return nil
		}
		if !isMoneyFault(err) {
			return err
		}
	}
	f.Order = asked
	f.decided(policy.Blocked, asked[0].Model, "", fault.From(why))
	return why
}

// affordInstead is affordAsked for a cheaper model. A balance that is blocked does not keep a free one from serving.
func (f *Funds) affordInstead(ctx context.Context, free bool) error {
	if f.Bill.Allowance.Degraded != "" { // the agent's own budget says what to do instead
		return fault.Newf(fault.BudgetExceeded, "the subsystem's budget is spent")
	}
	err := f.Allot(ctx, f.SafeTokens(f.Order), f.ToReserve())
	if err != nil {
		return err
	}
	if free && f.ToReserve() == 0 {
		return f.HoldNothing(ctx)
	}
	return f.Reserve(ctx)
}

// steps are the candidates that may serve the request in the place of its own, in the order in which they are tried, and the word for it.
func (f *Funds) steps(refused fault.Kind) (word string, steps [][]policy.Resolution) {
	if !f.MayBeReplaced() || intent.Critical(f.Hints.Subsystem) || f.Review.MayReplaceAnswer() {
		return "", nil
	}
	switch refused {
	case fault.BudgetExceeded:
		for _, m := range f.Config.Cheaper.Ladders.Below(f.Found[0].Model) {
			steps = append(steps, f.Instead(m))
		}
		return lostModel, steps
	case fault.InsufficientFunds:
		if f.Config.Cheaper.Free {
			free := slices.DeleteFunc(f.Instead(""), func(to policy.Resolution) bool { return !f.IsFree(&to) })
			steps = append(steps, free)
		}
	default:
	}
	return lostFree, steps
}

// downgrade notes that another model serves the request. Its answer is not stored as that of the model that was asked for.
func (f *Funds) downgrade(asked policy.ModelID, word string, why *fault.Fault) {
	to := f.Order[0].Model
	f.Request.Dropped = wire.AppendDegraded(slices.Clip(f.Request.Dropped), word+string(asked)+"->"+string(to))
	if f.Cache != nil {
		f.Cache.Abandon()
	}
	f.decided(policy.Downgraded, asked, to, why)
}

// Blocked notes, of a request whose body was not read, that it is refused for lack of money, and returns err. The model that it asks for is not known.
func (f *Funds) Blocked(err error) error {
	if isMoneyFault(err) {
		f.decided(policy.Blocked, "", "", fault.From(err))
	}
	return err
}

// decided notes a decision, and emits its event.
func (f *Funds) decided(a policy.BudgetAction, asked, to policy.ModelID, why *fault.Fault) {
	d := &policy.BudgetDecision{Action: a, Reason: why.Public, Asked: asked, Alternative: to, RetryAfter: int64(why.RetryAfter.Seconds())}
	f.Trace.Budget = d
	if f.Events().On() {
		record.EventDowngrade.Emit(f.Events(), f.Principal.Account, record.Downgrade{RequestID: f.ID, Subsystem: f.Hints.Subsystem, BudgetDecision: *d})
	}
}

// MarkCritical notes whether a request is of a subsystem that budgets do not hold (D-55): of such requests a balance keeps a part, and only an empty balance
// stops them. It takes a balance, and a key that is not published: else nothing would bound who calls itself so.
func (f *Funds) MarkCritical(subsystem string) {
	kept := f.Config.Cheaper.Reserve
	if intent.Critical(subsystem) {
		kept = 0
	}
	f.Bill.Critical(f.isExempt(subsystem), kept)
}

func (f *Funds) isExempt(subsystem string) bool {
	return f.Principal.Prepaid && !f.Principal.Publishable && intent.Critical(subsystem)
}
