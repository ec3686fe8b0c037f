package spend

import (
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// retryDelay is the time to wait while other requests hold the rest of a budget.
const retryDelay = time.Second

// retryAt is when a request may be sent again: soon if requests in flight hold the amount that it needs, else in the next day or month.
func retryAt(now time.Time, p period, left, maxCost policy.Micro) time.Time {
	if left > 0 && maxCost <= left {
		return now.UTC().Add(retryDelay)
	}
	day, month := starts(now)
	if p == monthly {
		return month.AddDate(0, 1, 0)
	}
	return day.AddDate(0, 0, 1)
}

// overBudget is the fault of a request that does not fit into a budget.
func overBudget(now time.Time, r *policy.OverBudget) *fault.Fault {
	f := fault.New(fault.BudgetExceeded, r.Error(), r)
	f.RetryAfter = r.RetryAt.Sub(now)
	return f
}
