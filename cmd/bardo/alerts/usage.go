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
	// settleTime is how long after a day its usage is reported, so that requests in flight at its end are charged.
	settleTime = 15 * time.Minute
	// maxKeys bounds the keys in a day's usage; the most expensive are included.
	maxKeys = 500
)

// reportLastDay emits the previous day's usage, once.
func (s *Spending) reportLastDay(ctx context.Context, now time.Time, keys []ledger.KeyRow) error {
	today := dayOf(now)
	if now.Sub(today) < settleTime || s.reported.Equal(today) {
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
		if i >= maxKeys {
			all.Others++
			continue
		}
		k := notice.KeyUsage{Key: r.Name, Name: nameOf(keys, policy.Account(r.Name)), Requests: r.Requests, Tokens: r.Tokens, Cost: r.Cost, ProviderCost: r.ProviderCost, Saved: r.Saved}
		all.Keys = append(all.Keys, k)
	}
	notice.UsageOfDay.Emit(s.Events, "", all)
	return nil
}
