package meter

import (
	"context"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
)

// Allowance is what a request may spend of its agent's budget for the day. The zero value is of one that no budget holds.
// What its agent spends is booked all the same.
type Allowance struct {
	Part     budget.Part
	Limits   budget.Budgets
	Left     policy.Micro // of the part's budget; budget.Unlimited for what is always paid for
	Degraded string       // what X-Bardo-Degraded says of it
	hold     budget.Hold
}

// Limited reports whether the part's budget has an end.
func (a *Allowance) Limited() bool { return a.Part != budget.None && a.Left != budget.Unlimited }

// Enter holds the most that the request may cost against its part's budget, unless that is spent: the decision says so. The error is that
// the store cannot be read.
func (a *Allowance) Enter(ctx context.Context, m *Meter, now time.Time, agent budget.Agent, subsystem string, most policy.Micro) (d budget.Decision, use budget.Use, err error) {
	decide := func(u budget.Use) budget.Decision {
		use = u
		return a.Limits.Decide(subsystem, u, now)
	}
	a.hold, d, err = m.Budgets.Enter(ctx, now, agent, a.Part, most, decide)
	if err == nil {
		a.Left = d.Remaining
	}
	return d, use, err
}

// done turns what the request held of its part's budget into what it was charged.
func (a *Allowance) done(charged policy.Micro) {
	if u, ok := a.hold.Done(charged); ok && a.Left != budget.Unlimited {
		a.Left = max(a.Limits[a.Part]-u.Spent, 0)
	}
}
