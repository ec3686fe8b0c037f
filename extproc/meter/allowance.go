package meter

import (
	"context"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
)

// Allowance is what a request may spend of its agent's daily budget. The zero value is a request that no budget limits; its agent's spending
// is counted all the same.
type Allowance struct {
	Part     budget.Part
	Limits   budget.Budgets
	Left     policy.Micro // left of the subsystem's budget; budget.Unlimited for exempt requests
	Degraded string       // entry in X-Bardo-Degraded
	hold     budget.Hold
}

// Limited reports whether the subsystem has a limited budget.
func (a *Allowance) Limited() bool { return a.Part != budget.None && a.Left != budget.Unlimited }

// Enter reserves the request's maximum cost from its subsystem's budget, in place of an earlier reservation; the decision says if the budget is spent.
// The error means that the store cannot be read.
func (a *Allowance) Enter(ctx context.Context, m *Meter, now time.Time, agent budget.Agent, subsystem string, maxCost policy.Micro) (d budget.Decision, use budget.Use, err error) {
	decide := func(u budget.Use) budget.Decision {
		use = u
		return a.Limits.Decide(subsystem, u, now)
	}
	d, err = m.Budgets.Enter(ctx, now, agent, a.Part, maxCost, &a.hold, decide)
	if err == nil {
		a.Left = d.Remaining
	}
	return d, use, err
}

// Cover reserves the maximum cost of the request together with a call made beside its own, in place of an earlier reservation, if the subsystem's
// budget covers all of it besides what other requests have spent and reserved. If it returns false, the earlier reservation is unchanged.
func (a *Allowance) Cover(ctx context.Context, m *Meter, now time.Time, agent budget.Agent, subsystem string, maxCost policy.Micro) bool {
	if a.Part == budget.None {
		return true
	}
	d, err := m.Budgets.Enter(ctx, now, agent, a.Part, maxCost, &a.hold, func(u budget.Use) budget.Decision {
		d := a.Limits.Decide(subsystem, u, now)
		if d.Remaining-u.Held < maxCost {
			d.Action = budget.Refuse
		}
		return d
	})
	return err == nil && d.Action == budget.Serve
}

// done replaces the amount reserved from the subsystem's budget by what was charged.
func (a *Allowance) done(charged policy.Micro) {
	if u, ok := a.hold.Done(charged); ok && a.Left != budget.Unlimited {
		a.Left = max(a.Limits[a.Part]-u.Spent, 0)
	}
}
