package alerts

import (
	"context"
	"time"

	"bardo.money/gateway/cmd/bardo/run/notice"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/usage"
)

const (
	// closing is how long after a day its usage is told: what was under way at its end is charged by then.
	closing = 15 * time.Minute
	// mostKeys are in the usage of a day, the most expensive first.
	mostKeys = 500
)

// lastDay emits the usage of the day before, once.
func (s *Spending) lastDay(ctx context.Context, now time.Time, keys []ledger.KeyRow) error {
	today := dayOf(now)
	if now.Sub(today) < closing || s.reported.Equal(today) {
		return nil
	}
	day := today.AddDate(0, 0, -1)
	rows, err := s.Books.Usage(ctx, ledger.Filter{Since: day, Until: day}, usage.ByKey)
	if err != nil {
		return err
	}
	s.reported = today
	if len(rows) == 0 {
		return nil
	}
	all := notice.DayUsage{Day: day.Format(time.DateOnly), Keys: []notice.KeyUsage{}}
	for i := range rows {
		r := &rows[i]
		all.Requests, all.Cost, all.ProviderCost = all.Requests+r.Requests, all.Cost.Plus(r.Cost), all.ProviderCost.Plus(r.ProviderCost)
		if i >= mostKeys {
			all.Others++
			continue
		}
		k := notice.KeyUsage{Key: r.Name, Name: nameOf(keys, policy.Account(r.Name)), Requests: r.Requests, Tokens: r.Tokens, Cost: r.Cost, ProviderCost: r.ProviderCost, Saved: r.Saved}
		all.Keys = append(all.Keys, k)
	}
	notice.UsageOfDay.Emit(s.Events, "", all)
	return nil
}
