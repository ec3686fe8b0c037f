package usage

import (
	"context"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// AtProvider sums the requests that a provider answered between two times, by model. Requests older than the retention are deleted.
func (v *View) AtProvider(ctx context.Context, p policy.ProviderID, from, to time.Time) ([]Row, error) {
	first, last := from.UnixMicro(), to.UnixMicro()
	rows, err := store.ReadAll(ctx, v, scanUsage, `SELECT model, count(*), 0, sum(input), sum(cached), sum(cache_write), sum(output), sum(reasoning), sum(charged), sum(provider_cost), 0
FROM request WHERE provider = ? AND at BETWEEN ? AND ? GROUP BY model ORDER BY model`, string(p), first, last)
	if err != nil {
		return nil, fmt.Errorf("usage at %s: %w", p, err)
	}
	return addUnapplied(rows, v.Unapplied(), ByModel, func(e *chargelog.Entry) bool {
		at := e.Charge.At.UnixMicro()
		return e.Charge.Provider == p && first <= at && at <= last
	}), nil
}
