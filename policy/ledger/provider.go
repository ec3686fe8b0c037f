package ledger

import (
	"context"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
)

// AtProvider sums the requests that a provider answered in a period, by model. Requests older than the retention are not included.
func (l *Ledger) AtProvider(ctx context.Context, p policy.ProviderID, from, to time.Time) (rows []UsageRow, err error) {
	defer asUnavailable(&err)
	v, err := l.view(ctx)
	if err != nil {
		return nil, fmt.Errorf("usage at %s: %w", p, err)
	}
	defer v.Close()
	return v.AtProvider(ctx, p, from, to)
}
