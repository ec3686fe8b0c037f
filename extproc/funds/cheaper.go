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

// A request that exceeds its budgets is served by a cheaper model of the operator's ladder (D-55), and one that its balance does not cover by a free
// model (B-20), if configured. Both are reported: in X-Bardo-Degraded, the record and an event. Subsystems risk, operator and death always get the
// requested model.

// Prefixes of entries in X-Bardo-Degraded: degradedModel for a request that a cheaper model serves, degradedFree for a free model. The models follow.
const (
	degradedModel = "model:"
	degradedFree  = "free_model:"
)

// Afford ensures that the request can be paid for, with a cheaper model if needed. rank sorts candidates in call order. The error is that of the
// requested model.
func (f *Funds) Afford(ctx context.Context, rank func([]policy.Resolution) []policy.Resolution) error {
	refusal := f.affordAsked(ctx)
	if refusal == nil && f.floor != nil {
		f.downgrade(f.floor.requested, degradedFree, f.floor.reason)
	}
	if !isMoneyFault(refusal) {
		return refusal
	}
	asked := f.Order
	prefix, steps := f.steps(fault.From(refusal).Kind)
	for _, order := range steps {
		if f.Order = rank(order); len(f.Order) == 0 {
			continue
		}
		err := f.affordInstead(ctx, prefix == degradedFree)
		if err == nil {
			f.downgrade(asked[0].Model, prefix, fault.From(refusal))
			return nil
		}
		if !isMoneyFault(err) {
			return err
		}
	}
	f.Order = asked
	f.decided(policy.Blocked, asked[0].Model, "", fault.From(refusal))
	return refusal
}

// affordInstead is affordAsked for a cheaper model. A blocked balance does not exclude a free one.
func (f *Funds) affordInstead(ctx context.Context, free bool) error {
	if f.Bill.Allowance.Degraded != "" { // the agent's own budget decides the replacement
		return fault.Newf(fault.BudgetExceeded, "the subsystem's budget is spent")
	}
	err := f.Allot(ctx, f.Order, f.SafeTokens(f.Order), f.ToReserve())
	if err != nil {
		return err
	}
	if free && f.ToReserve() == 0 {
		return f.HoldNothing(ctx)
	}
	return f.Reserve(ctx)
}

// steps returns the candidates that may serve the request instead of its own, in the order in which they are tried, and the prefix of the degraded
// entry.
func (f *Funds) steps(refused fault.Kind) (prefix string, steps [][]policy.Resolution) {
	if !f.MayBeReplaced() || intent.Critical(f.Hints.Subsystem) || f.Review.MayReplaceAnswer() {
		return "", nil
	}
	switch refused {
	case fault.BudgetExceeded:
		for _, m := range f.Config.Cheaper.Ladders.Below(f.Found[0].Model) {
			steps = append(steps, f.Replacements(m))
		}
		return degradedModel, steps
	case fault.InsufficientFunds:
		if f.Config.Cheaper.Free {
			free := slices.DeleteFunc(f.Replacements(""), func(to policy.Resolution) bool { return !f.IsFree(&to) })
			steps = append(steps, free)
		}
	default:
	}
	return degradedFree, steps
}

// downgrade records that another model serves the request. Its answer is not cached as that of the requested model.
func (f *Funds) downgrade(asked policy.ModelID, prefix string, refusal *fault.Fault) {
	to := f.Order[0].Model
	f.Request.Dropped = wire.AppendDegraded(slices.Clip(f.Request.Dropped), prefix+string(asked)+"->"+string(to))
	if f.Cache != nil {
		f.Cache.Abandon()
	}
	f.decided(policy.Downgraded, asked, to, refusal)
}

// Blocked records that a request, whose body was not read, is refused for lack of money, and returns err. The requested model is unknown.
func (f *Funds) Blocked(err error) error {
	if isMoneyFault(err) {
		f.decided(policy.Blocked, "", "", fault.From(err))
	}
	return err
}

// decided records a decision, and emits its event.
func (f *Funds) decided(a policy.BudgetAction, asked, to policy.ModelID, refusal *fault.Fault) {
	d := &policy.BudgetDecision{Action: a, Reason: refusal.Public, Requested: asked, Alternative: to, RetryAfter: int64(refusal.RetryAfter.Seconds())}
	f.Trace.Budget = d
	if f.Events().On() {
		record.EventDowngrade.Emit(f.Events(), f.Principal.Account, record.Downgrade{RequestID: f.ID, Subsystem: f.Hints.Subsystem, BudgetDecision: *d})
	}
}

// MarkCritical exempts a request of a critical subsystem from budgets (D-55); a part of the balance is retained for such requests, and only an empty
// balance stops them. It requires a balance, and a key that is not publishable: otherwise any caller could claim it.
func (f *Funds) MarkCritical(subsystem string) {
	retained := f.Config.Cheaper.Reserve
	if intent.Critical(subsystem) {
		retained = 0
	}
	f.Bill.SetPriority(f.isExempt(subsystem), retained)
}

func (f *Funds) isExempt(subsystem string) bool {
	return f.Principal.Prepaid && !f.Principal.Publishable && intent.Critical(subsystem)
}
