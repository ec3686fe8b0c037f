package policy

import (
	"fmt"
	"time"
)

// OverBudget is the error of a request that exceeds a shared budget, for its record.
type OverBudget struct {
	Holder  Holder    `json:"holder"`
	ID      string    `json:"id"`
	Period  string    `json:"period"` // day or month
	Limit   Micro     `json:"limit_usd"`
	Left    Micro     `json:"left_usd"` // not spent; reservations are not deducted
	MaxCost Micro     `json:"most_usd"` // maximum cost of the request; 0 before its body was read
	Action  string    `json:"action"`   // refused
	RetryAt time.Time `json:"again_at"` // when the request would fit, as far as is known
}

// Error implements error.
func (r *OverBudget) Error() string {
	of := fmt.Sprintf("the budget of %s %s for the %s, %s USD", r.Holder, r.ID, r.Period, r.Limit)
	switch {
	case r.Left == 0:
		return of + ", is used up until " + r.RetryAt.Format(time.RFC3339)
	case r.MaxCost <= r.Left:
		return of + ": requests under way hold what is left of it"
	}
	return fmt.Sprintf("this request may cost %s USD, and %s USD are left of %s: set a lower max_tokens, or wait until %s", r.MaxCost, r.Left, of, r.RetryAt.Format(time.RFC3339))
}
