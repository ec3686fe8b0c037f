package funds

import (
	"context"

	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/side"
	"bardo.money/gateway/policy"
)

// MaxSideCost returns the maximum cost of a side call to the operator's account.
func (f *Funds) MaxSideCost(list []policy.Resolution, c *pipeline.SideCall) (maxCost policy.Pico) {
	for i := range list {
		if !f.CallerPays(list[i].Provider) {
			maxCost = max(maxCost, side.MaxCost(&list[i], c))
		}
	}
	return maxCost
}

// HoldSide reserves the maximum cost of a side call together with that of the request. It returns false if a balance, limit or budget does not cover
// both; the request is only refused later if its own cost is not covered.
func (f *Funds) HoldSide(ctx context.Context, maxCost policy.Pico) bool {
	if maxCost == 0 {
		return true
	}
	total := f.maxChargeWith(f.Found, maxCost)
	if !f.Bill.Covers(total) || f.Ledger.Writable() != nil || !f.coverByBudget(ctx, total) {
		return false
	}
	if f.Allot(ctx, f.Found, f.SafeTokens(f.Found), total) != nil || f.HoldSession(ctx, total) != nil || f.Bill.Reserve(ctx, total) != nil {
		return false
	}
	f.sideHeld = total
	return true
}

// coverByBudget reserves the request's maximum cost with a further call from the budget of its subsystem, if that covers it.
func (f *Funds) coverByBudget(ctx context.Context, total policy.Micro) bool {
	return f.Bill.Allowance.Cover(ctx, f.Meter, f.Started, f.Agent(), f.Hints.Subsystem, total)
}
