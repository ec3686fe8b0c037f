package funds

import (
	"context"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// HoldHedge reserves the maximum cost of one call of either candidate beside the request's own calls. If a balance, limit or budget does not cover it,
// the request keeps its reservation, and HoldHedge returns false.
func (f *Funds) HoldHedge(ctx context.Context, first, second *policy.Resolution) bool {
	own := f.Bill.MaxCharge()
	list := []policy.Resolution{*first, *second}
	more := f.maxCallCharge(list)
	if f.Ledger.Writable() != nil || !f.coverByBudget(ctx, own.Plus(more)) {
		return false
	}
	tokens := f.SafeTokens(f.Order)
	if f.Allot(ctx, f.Order, policy.AddTokens(tokens, f.SafeTokens(list)), own.Plus(more)) == nil && f.HoldSession(ctx, own.Plus(more)) == nil && f.Bill.Extend(ctx, more) == nil {
		return true
	}
	ctx = context.WithoutCancel(ctx)
	_, _, _ = f.Allot(ctx, f.Order, tokens, own), f.HoldSession(ctx, own), f.coverByBudget(ctx, own) // they were granted before; if another request took them meanwhile, the charge still counts
	return false
}

// maxCallCharge returns the maximum charge of one call of the most expensive candidate.
func (f *Funds) maxCallCharge(candidates []policy.Resolution) policy.Micro {
	_, output, _ := f.maxCalls(candidates)
	list := f.WithoutWindows(f.WithTierPrices(candidates))
	input := f.Request.MaxInput + f.Review.SchemaTokens(list)
	return resolve.WorstCost(list, input, output, int64(f.Request.Choices)).Charge(f.Config.Spread(&f.Principal))
}
