package quota

import (
	"context"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Budgets with shared counters: a key's per month, its project's and its owner's.

// IsShared reports whether gateways share counters.
func (l *Limiter) IsShared() bool { return l != nil && l.shared != nil }

// HoldBudget implements spend.SharedCounter: it holds an amount of a budget until done, which must be called once, replaces it by the charge. The error is a
// *policy.OverBudget without RetryAt, or a fault of kind Unavailable if earlier spending cannot be read, or the store is unavailable and
// Rules.Share is 0. The limiter must have a Store.
func (l *Limiter) HoldBudget(ctx context.Context, now time.Time, of *policy.Budget, maxCost policy.Micro) (done func(time.Time, policy.Micro), err error) {
	s, maxCost := l.shared.ofBudget(of), clamp(maxCost)
	var over *policy.OverBudget
	c := &check{
		now: now, lim: limits{spend: int64(max(of.PerDay, 0)), month: int64(max(of.PerMonth, 0))}, share: l.rules.Load().Share,
		do: func(now time.Time, u *usage, lim *limits) { over = u.holdBudget(now, lim, of, maxCost) },
	}
	if l.budgets == nil {
		err = s.check(c)
	} else {
		err = s.checkWithSpending(c, func() (sums, error) { return l.spentOf(ctx, of, now) })
	}
	switch {
	case err != nil:
		return nil, err
	case over != nil:
		return nil, over
	}
	return func(at time.Time, charged policy.Micro) {
		s.end(at, hold{Active: 1, Charge: int64(maxCost)}, 0, int64(clamp(charged)), &limits{}, true)
	}, nil
}

// CountBudget counts a charge of a request without a hold of the budget.
func (l *Limiter) CountBudget(now time.Time, of *policy.Budget, charged policy.Micro) {
	l.shared.ofBudget(of).count(now, 0, int64(clamp(charged)), true)
}

// ofBudget finds the counters of a budget.
func (s *shared) ofBudget(of *policy.Budget) *slot {
	mu, found := s.budgets.lock(string(of.Holder) + ":" + of.ID)
	defer mu.Unlock()
	return found
}

// holdBudget holds an amount, or returns the limit that has too little left. While the store is unavailable lim has this gateway's share of the limits.
func (u *usage) holdBudget(now time.Time, lim *limits, of *policy.Budget, maxCost policy.Micro) *policy.OverBudget {
	u.advance(now)
	for _, p := range [...]struct {
		period      string
		limit, used int64
		whole       policy.Micro
	}{{"day", lim.spend, u.spent.n + u.others, of.PerDay}, {"month", lim.month, u.month.n + u.othersMonth, of.PerMonth}} {
		left := max(p.limit-p.used, 0)
		if p.limit == 0 || left > 0 && int64(maxCost) <= left-u.heldCharge {
			continue
		}
		return &policy.OverBudget{Holder: of.Holder, ID: of.ID, Period: p.period, Limit: p.whole, Left: policy.Micro(left), MaxCost: maxCost, Action: "refused"}
	}
	u.active++
	u.hold(0, maxCost)
	return nil
}

// spentOf reads the charges of a budget in the current day and month. Concurrent callers share one read, which is not cancelled with their requests.
func (l *Limiter) spentOf(ctx context.Context, of *policy.Budget, now time.Time) (sums, error) {
	const timeout = 5 * time.Second
	v, err, _ := l.reading.Do("budget:"+string(of.Holder)+":"+of.ID, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		y, m, d := now.UTC().Date()
		var s sums
		var err error
		if of.PerDay > 0 {
			s.day, err = l.budgets(ctx, *of, time.Date(y, m, d, 0, 0, 0, 0, time.UTC))
		}
		if err == nil && of.PerMonth > 0 {
			s.month, err = l.budgets(ctx, *of, time.Date(y, m, 1, 0, 0, 0, 0, time.UTC))
		}
		return s, err
	})
	if err != nil {
		return sums{}, fault.New(fault.Unavailable, "the budgets of this key cannot be read at the moment", err)
	}
	return v.(sums), nil //nolint:forcetypeassert // it is nothing else
}
