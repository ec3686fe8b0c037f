package quota

import (
	"context"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Budgets that gateways count together: a key's for the month, its project's and its owner's.

// Together reports whether gateways count together.
func (l *Limiter) Together() bool { return l != nil && l.shared != nil }

// HoldBudget holds so much of a budget that all gateways count, until done replaces it by what was charged; done is for one call. The error is a
// *policy.OverBudget without the time to come again, or a fault of kind Unavailable where earlier spending cannot be read, or the store is away and
// nothing is given out meanwhile. It is for a limiter that counts together.
func (l *Limiter) HoldBudget(ctx context.Context, now time.Time, of *policy.Budget, most policy.Micro) (done func(time.Time, policy.Micro), err error) {
	s, most := l.shared.ofBudget(of), clamp(most)
	var over *policy.OverBudget
	c := &check{
		now: now, lim: limits{spend: int64(max(of.PerDay, 0)), month: int64(max(of.PerMonth, 0))}, share: l.rules.Load().Share,
		do: func(now time.Time, u *usage, lim *limits) { over = u.holdBudget(now, lim, of, most) },
	}
	if l.budgets == nil {
		err = s.check(c)
	} else {
		err = s.visit(c, func() (sums, error) { return l.spentOf(ctx, of, now) })
	}
	switch {
	case err != nil:
		return nil, err
	case over != nil:
		return nil, over
	}
	return func(at time.Time, charged policy.Micro) {
		s.end(at, hold{Active: 1, Charge: int64(most)}, 0, int64(clamp(charged)), &limits{}, true)
	}, nil
}

// CountBudget counts a charge of a request that holds nothing of the budget any more.
func (l *Limiter) CountBudget(now time.Time, of *policy.Budget, charged policy.Micro) {
	l.shared.ofBudget(of).count(now, 0, int64(clamp(charged)), true)
}

// ofBudget finds the counters of a budget.
func (s *shared) ofBudget(of *policy.Budget) *slot {
	mu, found := s.budgets.lock(string(of.Holder) + ":" + of.ID)
	defer mu.Unlock()
	return found
}

// holdBudget holds an amount, or says which limit has no room for it. Of a gateway alone the limits are its part.
func (u *usage) holdBudget(now time.Time, lim *limits, of *policy.Budget, most policy.Micro) *policy.OverBudget {
	u.advance(now)
	for _, p := range [...]struct {
		period      string
		limit, used int64
		whole       policy.Micro
	}{{"day", lim.spend, u.spent.n + u.others, of.PerDay}, {"month", lim.month, u.month.n + u.before, of.PerMonth}} {
		left := max(p.limit-p.used, 0)
		if p.limit == 0 || left > 0 && int64(most) <= left-u.heldCharge {
			continue
		}
		return &policy.OverBudget{Holder: of.Holder, ID: of.ID, Period: p.period, Limit: p.whole, Left: policy.Micro(left), MaxCost: most, Action: "refused"}
	}
	u.active++
	u.hold(0, most)
	return nil
}

// spentOf reads what was charged of a budget in its day and month, for all that ask at a time, whether their requests go on or not.
func (l *Limiter) spentOf(ctx context.Context, of *policy.Budget, now time.Time) (sums, error) {
	const patience = 5 * time.Second
	v, err, _ := l.reading.Do("budget:"+string(of.Holder)+":"+of.ID, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
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
