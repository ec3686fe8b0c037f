package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// Request is the record of one request.
type Request struct {
	chargelog.Charge
	Charged policy.Micro // what the account paid; less than the amount if its balance was too low
}

// By is the grouping of usage.
type By string

// The ways to sum usage.
const (
	ByModel     By = "model"
	ByProvider  By = "provider"
	BySubsystem By = "subsystem"
	ByDay       By = "day"
	ByLayer     By = "layer" // what each layer of the pipeline saved: Savings, not Usage
)

// Filter selects the requests of a sum. The zero value selects all.
type Filter struct {
	Account policy.Account // "" means every account
	Since   time.Time      // the first UTC day; zero means from the beginning
	Until   time.Time      // the last UTC day; zero means to the end
}

// Row is the sum of the requests that share a model, provider, subsystem or day.
type Row struct {
	Name     string `json:"name"` // a day is written 2006-01-02
	Requests int64  `json:"requests"`
	Refused  int64  `json:"refused"` // refused before a provider was called: without model, provider and subsystem
	chargelog.Tokens
	Cost         policy.Micro `json:"cost_usd"` // what was charged, or counted for metered keys
	ProviderCost policy.Pico  `json:"provider_cost_usd"`
	Saved        policy.Micro `json:"saved_usd"` // by the layers of the pipeline; below zero where they cost more than they saved
}

// Usage sums the usage of requests, in order of time by day, otherwise most expensive first. It reads the daily totals, which are kept longer than
// requests.
func (v *View) Usage(ctx context.Context, f Filter, by By) ([]Row, error) {
	switch by {
	case ByModel, ByProvider, BySubsystem, ByDay:
	default:
		return nil, fmt.Errorf("usage by %q, expected model, provider, subsystem or day", by)
	}
	first, last := f.days()
	rows, err := store.ReadAll(ctx, v, scanUsage, `SELECT
	CASE ?1 WHEN 'model' THEN model WHEN 'provider' THEN provider WHEN 'subsystem' THEN subsystem
		ELSE `+v.Day+` END AS name,
	sum(requests), sum(refused), sum(input), sum(cached), sum(cache_write), sum(output), sum(reasoning), sum(charged), sum(provider_cost), sum(saved)
FROM usage WHERE (?2 = '' OR account = ?2) AND day BETWEEN ?3 AND ?4
GROUP BY name ORDER BY CASE ?1 WHEN 'day' THEN 0 ELSE -sum(charged) END, name`, by, f.Account, first, last)
	if err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	return addUnapplied(rows, v.Unapplied(), by, f.selects), nil
}

// addUnapplied adds charges that are not in the store to sums of it.
func addUnapplied(rows []Row, entries []*chargelog.Entry, by By, selected func(*chargelog.Entry) bool) []Row {
	added := false
	for _, e := range entries {
		if !selected(e) {
			continue
		}
		added = true
		name := by.nameOf(e.Charge)
		i := slices.IndexFunc(rows, func(u Row) bool { return u.Name == name })
		if i < 0 {
			i = len(rows)
			rows = append(rows, Row{Name: name})
		}
		u := &rows[i]
		u.Requests++
		addTokens(&u.Tokens, &e.Charge.Tokens)
		u.Cost += e.Expected()
		u.ProviderCost += e.Charge.ProviderCost
		u.Saved = u.Saved.Plus(savedOn(e.Charge))
	}
	if added {
		slices.SortFunc(rows, func(a, b Row) int {
			if by == ByDay || a.Cost == b.Cost {
				return cmp.Compare(a.Name, b.Name)
			}
			return cmp.Compare(b.Cost, a.Cost)
		})
	}
	return rows
}

// nameOf is the name of the sum that a charge belongs to.
func (by By) nameOf(c *chargelog.Charge) string {
	switch by {
	case ByModel:
		return string(c.Model)
	case ByProvider:
		return string(c.Provider)
	case BySubsystem:
		return c.Subsystem
	case ByDay, ByLayer:
	}
	return c.At.UTC().Format(time.DateOnly)
}

func scanUsage(row store.Scanner) (u Row, err error) {
	err = row.Scan(&u.Name, &u.Requests, &u.Refused, &u.Input, &u.Cached, &u.CacheWrite, &u.Output, &u.Reasoning, &u.Cost, &u.ProviderCost, &u.Saved)
	return u, err
}

// Charged is what an account was charged on the days from first to last.
func (v *View) Charged(ctx context.Context, acct policy.Account, first, last int64) (sum policy.Micro, err error) {
	err = v.QueryRowContext(ctx, `SELECT coalesce(sum(charged), 0) FROM usage WHERE account = ? AND day BETWEEN ? AND ?`, acct, first, last).Scan(&sum)
	for _, e := range v.Unapplied() {
		if day := DayOf(e.Charge.At); e.Charge.Account == acct && first <= day && day <= last {
			sum += e.Expected()
		}
	}
	return sum, err
}

// DayOf is the UTC day of a time, in days since 1970.
func DayOf(t time.Time) int64 {
	const day = 24 * 60 * 60
	s := t.Unix()
	if s < 0 {
		return (s - day + 1) / day
	}
	return s / day
}
