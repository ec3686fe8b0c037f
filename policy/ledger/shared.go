package ledger

import (
	"context"
	"time"

	"bardo.money/gateway/policy"
)

// SpentOf is what the holder of a budget was charged, or what was counted for it, from the UTC day of a time until now, as SpentSince.
func (l *Ledger) SpentOf(ctx context.Context, b policy.Budget, since time.Time) (policy.Micro, error) {
	return l.SpentSince(ctx, policy.Account(b.ID), since)
}
