package meter

import (
	"context"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/quota"
)

// Budgets that several requests share: a key's for the month, its project's and its owner's. Most callers have none.

// holdShared holds the most that the request may cost of the budgets that its caller has.
func (b *Bill) holdShared(ctx context.Context, most policy.Micro) error {
	if len(b.principal.Budgets) == 0 {
		return nil
	}
	if b.exempt {
		b.shared.Done(time.Now(), 0)
		return nil
	}
	return b.meter.Shared.Hold(ctx, time.Now(), b.principal.Budgets, most, &b.shared)
}

// admitShared refuses a request whose budgets are used up.
func (b *Bill) admitShared(ctx context.Context, ask *quota.Ask) error {
	if ask.Class == quota.Lookup || ask.MayBeFree {
		return nil
	}
	return b.holdShared(ctx, ask.Charge)
}

// countShared counts the request's charge in its budgets.
func (b *Bill) countShared(charged policy.Micro) {
	switch {
	case len(b.principal.Budgets) == 0:
	case b.later, b.exempt:
		b.meter.Shared.Count(time.Now(), b.principal.Budgets, charged)
	default:
		b.shared.Done(time.Now(), charged)
	}
}

// sharedImmediate reports whether the budgets' earlier spending is known.
func (b *Bill) sharedImmediate() bool {
	return len(b.principal.Budgets) == 0 || b.meter.Shared.Immediate(time.Now(), b.principal.Budgets)
}
