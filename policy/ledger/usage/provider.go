package usage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/store"
)

// AtProvider counts the requests that a provider answered in a period, and sums their provider cost, by model. Requests older than the retention are
// deleted.
func (v *View) AtProvider(ctx context.Context, p policy.ProviderID, from, to time.Time) ([]Row, error) {
	first, last := from.UnixMicro(), to.UnixMicro()
	rows, err := store.ReadAll(ctx, v, func(row store.Scanner) (r Row, err error) {
		err = row.Scan(&r.Name, &r.Requests, &r.ProviderCost)
		return r, err
	}, `SELECT model, count(*), sum(provider_cost) FROM request WHERE provider = ? AND at BETWEEN ? AND ? GROUP BY model ORDER BY model`, string(p), first, last)
	if err != nil {
		return nil, fmt.Errorf("usage at %s: %w", p, err)
	}
	for _, e := range v.Unapplied() {
		c := e.Charge
		if at := c.At.UnixMicro(); c.Provider != p || at < first || at > last {
			continue
		}
		i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == string(c.Model) })
		if i < 0 {
			i = len(rows)
			rows = append(rows, Row{Name: string(c.Model)})
		}
		rows[i].Requests++
		rows[i].ProviderCost += c.ProviderCost
	}
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
	return rows, nil
}
