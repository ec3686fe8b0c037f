package meter

import (
	"context"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/quota"
)

// Budgets that several requests share: a key's monthly budget, its project's and its owner's. Most callers have none.

// holdShared reserves the request's maximum cost from its caller's budgets.
func (b *Bill) holdShared(ctx context.Context, maxCost policy.Micro) error {
	if len(b.principal.Budgets) == 0 {
		return nil
	}
	if b.exempt {
		b.shared.Done(time.Now(), 0)
		return nil
	}
	return b.meter.Shared.Hold(ctx, time.Now(), b.principal.Budgets, maxCost, &b.shared)
}

// admitShared refuses a request whose budgets are exhausted.
func (b *Bill) admitShared(ctx context.Context, ask *quota.Request) error {
	if ask.Class == quota.Lookup || ask.MayBeFree {
		return nil
	}
	return b.holdShared(ctx, ask.Charge)
}

// countShared counts the request's charge in its budgets.
func (b *Bill) countShared(charged policy.Micro) {
	switch {
	case len(b.principal.Budgets) == 0:
	case b.accepted, b.exempt:
		b.meter.Shared.Count(time.Now(), b.principal.Budgets, charged)
	default:
		b.shared.Done(time.Now(), charged)
	}
}

// sharedImmediate reports whether the budgets' earlier spending is known.
func (b *Bill) sharedImmediate() bool {
	return len(b.principal.Budgets) == 0 || b.meter.Shared.Immediate(time.Now(), b.principal.Budgets)
}
