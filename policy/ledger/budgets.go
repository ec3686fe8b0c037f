package ledger

import (
	"context"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

// SpentOf is the charges of a budget's holder, or the costs that were counted for metered keys, from the UTC day of a time until now, as SpentSince. For a project
// it is the sum of the keys that it has now, and for an owner that of its projects' keys.
func (l *Ledger) SpentOf(ctx context.Context, b policy.Budget, since time.Time) (sum policy.Micro, err error) {
	defer asUnavailable(&err)
	if b.Holder == policy.OfKey {
		return l.SpentSince(ctx, policy.Account(b.ID), since)
	}
	sum, err = l.spentOfGroup(ctx, b, since)
	if err != nil {
		return 0, fmt.Errorf("spent by %s %s: %w", b.Holder, b.ID, err)
	}
	return sum, nil
}

func (l *Ledger) spentOfGroup(ctx context.Context, b policy.Budget, since time.Time) (sum policy.Micro, err error) {
	accounts, err := l.accountsOf(ctx, b)
	if err != nil || len(accounts) == 0 {
		return 0, err
	}
	v, err := l.view(ctx)
	if err != nil {
		return 0, err
	}
	defer v.Close()
	first, last := usage.DayOf(since), usage.DayOf(l.o.Now())
	for _, acct := range accounts {
		charged, err := v.Charged(ctx, acct, first, last)
		if err != nil {
			return 0, err
		}
		sum += charged
	}
	return sum, nil
}

// accountsOf returns the keys of a project, or of an owner's projects, including revoked ones.
func (l *Ledger) accountsOf(ctx context.Context, b policy.Budget) ([]policy.Account, error) {
	of := `k.project`
	if b.Holder == policy.OfOwner {
		of = `p.owner`
	}
	return store.ReadAll(ctx, l.reads, func(s store.Scanner) (a policy.Account, err error) {
		err = s.Scan(&a)
		return a, err
	}, `SELECT k.id FROM "key" k JOIN project p ON p.id = k.project WHERE `+of+` = ?`, b.ID)
}
