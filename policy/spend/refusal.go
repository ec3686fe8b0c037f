package spend

import (
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// retrySoon is the time to wait while other requests hold what is left.
const retrySoon = time.Second

// again is when a request may come again: soon if requests under way hold what it needs, else in the next day or month.
func again(now time.Time, p period, left, most policy.Micro) time.Time {
	if left > 0 && most <= left {
		return now.UTC().Add(retrySoon)
	}
	day, month := starts(now)
	if p == monthly {
		return month.AddDate(0, 1, 0)
	}
	return day.AddDate(0, 0, 1)
}

// refused is the fault of a request that does not fit.
func refused(now time.Time, r *policy.OverBudget) *fault.Fault {
	f := fault.New(fault.BudgetExceeded, r.Error(), r)
	f.RetryAfter = r.RetryAt.Sub(now)
	return f
}
