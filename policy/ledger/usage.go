package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
)

// Request is the record of one request.
type Request struct {
	Charge
	Charged policy.Micro // what the account paid; less than the amount if its balance was too low
}

// Request reads one request of an account ("" for anonymous ones). The error is ErrUnknownRequest if there is none, or it is older than the
// retention. Only the latest refusals of this handle are included.
func (l *Ledger) Request(ctx context.Context, acct policy.Account, id string) (Request, error) {
	r, err := l.AnyRequest(ctx, id)
	if err == nil && r.Account != acct {
		return Request{}, fmt.Errorf("request %s: %w", id, ErrUnknownRequest)
	}
	return r, err
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

// UsageRow is the sum of the requests that share a model, provider, subsystem or day.
type UsageRow struct {
	Name     string `json:"name"` // a day is written 2006-01-02
	Requests int64  `json:"requests"`
	Refused  int64  `json:"refused"` // refused before a provider was called: without model, provider and subsystem
	Tokens
	Cost         policy.Micro `json:"cost_usd"` // what was charged, or counted for metered keys
	ProviderCost policy.Pico  `json:"provider_cost_usd"`
	Saved        policy.Micro `json:"saved_usd"` // by the layers of the pipeline; below zero where they cost more than they saved
}

// Usage sums the usage of requests, in order of time by day, otherwise most expensive first. It reads the daily totals, which are kept longer than
// requests.
func (l *Ledger) Usage(ctx context.Context, f Filter, by By) ([]UsageRow, error) {
	switch by {
	case ByModel, ByProvider, BySubsystem, ByDay:
	default:
		return nil, fmt.Errorf("usage by %q, expected model, provider, subsystem or day", by)
	}
	first, last := f.days()
	v, err := l.view(ctx)
	if err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	defer v.close()
	rows, err := readAll(ctx, v, scanUsage, `SELECT
	CASE ?1 WHEN 'model' THEN model WHEN 'provider' THEN provider WHEN 'subsystem' THEN subsystem
		ELSE `+v.day+` END AS name,
	sum(requests), sum(refused), sum(input), sum(cached), sum(cache_write), sum(output), sum(reasoning), sum(charged), sum(provider_cost), sum(saved)
FROM usage WHERE (?2 = '' OR account = ?2) AND day BETWEEN ?3 AND ?4
GROUP BY name ORDER BY CASE ?1 WHEN 'day' THEN 0 ELSE -sum(charged) END, name`, by, f.Account, first, last)
	if err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	return addUnapplied(rows, v.unapplied(), by, f.selects), nil
}

// addUnapplied adds charges that are not in the store to sums of it.
func addUnapplied(rows []UsageRow, entries []*chargelog.Entry, by By, selected func(*chargelog.Entry) bool) []UsageRow {
	added := false
	for _, e := range entries {
		if !selected(e) {
			continue
		}
		added = true
		name := by.nameOf(e.Charge)
		i := slices.IndexFunc(rows, func(u UsageRow) bool { return u.Name == name })
		if i < 0 {
			i = len(rows)
			rows = append(rows, UsageRow{Name: name})
		}
		u := &rows[i]
		u.Requests++
		addTokens(&u.Tokens, &e.Charge.Tokens)
		u.Cost += expected(e)
		u.ProviderCost += e.Charge.ProviderCost
		u.Saved = u.Saved.Plus(savedOn(e.Charge))
	}
	if added {
		slices.SortFunc(rows, func(a, b UsageRow) int {
			if by == ByDay || a.Cost == b.Cost {
				return cmp.Compare(a.Name, b.Name)
			}
			return cmp.Compare(b.Cost, a.Cost)
		})
	}
	return rows
}

// nameOf is the name of the sum that a charge belongs to.
func (by By) nameOf(c *Charge) string {
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

func scanUsage(row scanner) (u UsageRow, err error) {
	err = row.Scan(&u.Name, &u.Requests, &u.Refused, &u.Input, &u.Cached, &u.CacheWrite, &u.Output, &u.Reasoning, &u.Cost, &u.ProviderCost, &u.Saved)
	return u, err
}

// SpentSince is what an account was charged, or what was counted for a metered one, from the UTC day of t until now,
// charges on their way to the store included. In a gateway's handle today's part is kept in memory; what other processes
// charge is in it within half a second.
func (l *Ledger) SpentSince(ctx context.Context, acct policy.Account, t time.Time) (policy.Micro, error) {
	sum, err := l.spentSince(ctx, acct, t)
	if err != nil {
		return 0, fmt.Errorf("spent by key %s: %w", acct, err)
	}
	return sum, nil
}

func (l *Ledger) spentSince(ctx context.Context, acct policy.Account, t time.Time) (policy.Micro, error) {
	first, today := dayOf(t), dayOf(l.o.Now())
	if !l.o.Gateway {
		return l.spentBetween(ctx, acct, first, today)
	}
	sum, err := l.spentToday(l.account(acct), today)
	if err != nil || first >= today {
		return sum, err
	}
	earlier, err := l.spentBetween(ctx, acct, first, today-1)
	return sum + earlier, err
}

// spentBetween is what an account was charged on the days from first to last.
func (l *Ledger) spentBetween(ctx context.Context, acct policy.Account, first, last int64) (sum policy.Micro, err error) {
	v, err := l.view(ctx)
	if err != nil {
		return 0, err
	}
	defer v.close()
	err = v.QueryRowContext(ctx, `SELECT coalesce(sum(charged), 0) FROM usage WHERE account = ? AND day BETWEEN ? AND ?`, acct, first, last).Scan(&sum)
	for _, e := range v.unapplied() {
		if day := dayOf(e.Charge.At); e.Charge.Account == acct && first <= day && day <= last {
			sum += expected(e)
		}
	}
	return sum, err
}

func (l *Ledger) spentToday(a *account, today int64) (policy.Micro, error) {
	asOf := l.generation.Load()
	if sum, ok := a.spentOn(today, asOf); ok && l.o.Gateway {
		return sum, nil
	}
	// The writer reads the day's sum, so that it is known which charges are in it: those that it answered before.
	var stored, sum policy.Micro
	err := l.writer.do(func(b *book) (err error) { stored, err = b.chargedOn(a.name, today); return err }, func(err error) {
		if err == nil {
			sum = a.setSpent(today, stored, asOf)
		}
	})
	if !isUnwritable(err) {
		return sum, err
	}
	// Nothing is being applied, so that what the store has and what waits make the sum. Who costs nothing is served nevertheless.
	err = l.reads.QueryRowContext(context.Background(), selectCharged, a.name, today).Scan(&stored)
	return stored + a.pending(), err
}

func (a *account) pending() policy.Micro {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spent.pending
}

// spentOn is the spending of a day; ok is false if it was not read yet, or another process has changed the store since.
func (a *account) spentOn(day int64, asOf uint64) (sum policy.Micro, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.spent.loaded || a.spent.day != day || a.spent.generation < asOf {
		return 0, false
	}
	return a.spent.sum + a.spent.pending, true
}

// setSpent notes what the store says of a day, and returns it with what is on its way there.
func (a *account) setSpent(day int64, stored policy.Micro, asOf uint64) policy.Micro {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spent.day, a.spent.loaded, a.spent.sum, a.spent.generation = day, true, stored, asOf
	return a.spent.sum + a.spent.pending
}

// readAll reads the rows of a query.
func readAll[T any](ctx context.Context, db queryer, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// queryer is a database or a transaction on it.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}
