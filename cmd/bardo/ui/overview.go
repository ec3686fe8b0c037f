package ui

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// overviewData is the content of the first page: cost and savings by day.
type overviewData struct {
	Days      int
	Ranges    []int
	Today     ledger.UsageRow
	Total     ledger.UsageRow
	Chart     chart
	Models    []ledger.UsageRow
	Providers []ledger.UsageRow
	Layers    []ledger.SavingRow
	Key       string
	Names     map[policy.Account]string
}

var ranges = []int{7, 30, 90}

func (s *Server) overview(w http.ResponseWriter, r *http.Request, v *viewer) error {
	d := overviewData{Days: 30, Ranges: ranges, Key: r.URL.Query().Get("key")}
	if n, err := strconv.Atoi(r.URL.Query().Get("days")); err == nil && slices.Contains(ranges, n) {
		d.Days = n
	}
	accounts, err := v.accountsFor(d.Key)
	if err != nil {
		return err
	}
	if d.Names, err = s.keyNames(r.Context(), v); err != nil {
		return err
	}
	since := dayOf(s.o.Now(), d.Days-1)
	days, err := s.usage(r.Context(), accounts, since, ledger.ByDay)
	if err != nil {
		return err
	}
	for i := range days {
		add(&d.Total, &days[i])
		if days[i].Name == dayOf(s.o.Now(), 0).Format(time.DateOnly) {
			d.Today = days[i]
		}
	}
	d.Chart = newChart(since, d.Days, days)
	if d.Models, err = s.usage(r.Context(), accounts, since, ledger.ByModel); err != nil {
		return err
	}
	if d.Providers, err = s.usage(r.Context(), accounts, since, ledger.ByProvider); err != nil {
		return err
	}
	if d.Layers, err = s.savings(r.Context(), accounts, since); err != nil {
		return err
	}
	s.render(w, http.StatusOK, v, "overview", view{Title: "Overview", Data: d})
	return nil
}

// usage sums usage over accounts, the most expensive first; days are kept in order.
func (s *Server) usage(ctx context.Context, accounts []policy.Account, since time.Time, by ledger.By) ([]ledger.UsageRow, error) {
	var all []ledger.UsageRow
	for _, a := range accounts {
		rows, err := s.o.Books.Usage(ctx, ledger.Filter{Account: a, Since: since}, by)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			at := slices.IndexFunc(all, func(u ledger.UsageRow) bool { return u.Name == rows[i].Name })
			if at < 0 {
				all = append(all, rows[i])
				continue
			}
			add(&all[at], &rows[i])
		}
	}
	if by != ledger.ByDay {
		slices.SortStableFunc(all, func(a, b ledger.UsageRow) int { return int(min(max(b.Cost-a.Cost, -1), 1)) })
	}
	return all, nil
}

// add adds a row to a sum, without its name.
func add(sum, more *ledger.UsageRow) {
	sum.Requests += more.Requests
	sum.Refused += more.Refused
	sum.Input += more.Input
	sum.Cached += more.Cached
	sum.CacheWrite += more.CacheWrite
	sum.Output += more.Output
	sum.Reasoning += more.Reasoning
	sum.Cost += more.Cost
	sum.ProviderCost += more.ProviderCost
	sum.Saved += more.Saved
}

// savings sums the layers' savings over accounts.
func (s *Server) savings(ctx context.Context, accounts []policy.Account, since time.Time) ([]ledger.SavingRow, error) {
	var all []ledger.SavingRow
	for _, a := range accounts {
		rows, err := s.o.Books.Savings(ctx, ledger.Filter{Account: a, Since: since})
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			at := slices.IndexFunc(all, func(o ledger.SavingRow) bool { return o.Layer == row.Layer })
			if at < 0 {
				all = append(all, row)
				continue
			}
			all[at].Requests += row.Requests
			all[at].Tokens += row.Tokens
			all[at].Amount += row.Amount
		}
	}
	return all, nil
}
