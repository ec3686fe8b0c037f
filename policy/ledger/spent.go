package ledger

import (
	"context"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/usage"
)

// SpentSince is the charges of an account, or the costs that were counted for a metered one, from the UTC day of t until now,
// including those that are not applied yet. A gateway's handle keeps today's part in memory; it includes charges of other
// processes within half a second.
func (l *Ledger) SpentSince(ctx context.Context, acct policy.Account, t time.Time) (sum policy.Micro, err error) {
	defer asUnavailable(&err)
	sum, err = l.spentSince(ctx, acct, t)
	if err != nil {
		return 0, fmt.Errorf("spent by key %s: %w", acct, err)
	}
	return sum, nil
}

func (l *Ledger) spentSince(ctx context.Context, acct policy.Account, t time.Time) (policy.Micro, error) {
	first, today := usage.DayOf(t), usage.DayOf(l.o.Now())
	if !l.o.Gateway {
		return l.spentBetween(ctx, acct, first, today)
	}
	sum, err := l.spentToday(ctx, l.account(acct), today)
	if err != nil || first >= today {
		return sum, err
	}
	earlier, err := l.spentBetween(ctx, acct, first, today-1)
	return sum + earlier, err
}

// spentBetween sums the charges of an account on the days from first to last.
func (l *Ledger) spentBetween(ctx context.Context, acct policy.Account, first, last int64) (sum policy.Micro, err error) {
	v, err := l.view(ctx)
	if err != nil {
		return 0, err
	}
	defer v.Close()
	return v.Charged(ctx, acct, first, last)
}

func (l *Ledger) spentToday(ctx context.Context, a *account, today int64) (policy.Micro, error) {
	asOf := l.generation.Load()
	if sum, ok := a.spentOn(today, asOf); ok && l.o.Gateway {
		return sum, nil
	}
	// The writer reads the day's sum, so that it includes exactly the charges whose ops have ended.
	var stored, sum policy.Micro
	err := l.do(func(b *book) (err error) { stored, err = b.tally.ChargedOn(b.Book, a.name, today); return err }, func(err error) {
		if err == nil {
			sum = a.setSpent(today, stored, asOf)
		}
	})
	if !commit.IsUnwritable(err) {
		return sum, err
	}
	// Nothing is being applied, so the sum is that of the store and the waiting charges. Requests that cost nothing are served during an outage.
	stored, err = usage.ChargedOn(ctx, l.reads, a.name, today)
	return stored + a.pending(), err
}

func (a *account) pending() policy.Micro {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spent.pending
}

// spentOn is the cached spending of a day; ok is false if it was not read yet, or another process has changed the store since.
func (a *account) spentOn(day int64, asOf uint64) (sum policy.Micro, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.spent.loaded || a.spent.day != day || a.spent.generation < asOf {
		return 0, false
	}
	return a.spent.sum + a.spent.pending, true
}

// setSpent caches the store's sum of a day, and returns it with the pending charges.
func (a *account) setSpent(day int64, stored policy.Micro, asOf uint64) policy.Micro {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spent.day, a.spent.loaded, a.spent.sum, a.spent.generation = day, true, stored, asOf
	return a.spent.sum + a.spent.pending
}
