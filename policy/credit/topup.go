package credit

import (
	"time"

	"bardo.money/gateway/policy"
)

// Rules define when credit is bought.
type Rules struct {
	Auto      bool
	Threshold policy.Micro // below it credit is bought, or the operator is warned
	Amount    policy.Micro // of a purchase
	PerDay    policy.Micro // maximum purchases per UTC day
}

// Bought is the total of a UTC day's purchases. A purchase with an unknown outcome counts: the money may have been spent.
type Bought struct {
	Day    string       `json:"day,omitempty"` // 2006-01-02
	Amount policy.Micro `json:"usd"`
	Last   time.Time    `json:"last,omitzero"` // time of the last purchase
}

// Action is what is done about a balance. Its values are those of the event bankr:credit_check.
type Action string

// The actions.
const (
	None    Action = "none"  // the balance is sufficient
	Warn    Action = "warn"  // the balance is low, and automatic purchases are off
	TopUp   Action = "topup" // credit is bought
	Wait    Action = "wait"  // a purchase is in progress
	Limited Action = "limit" // the balance is low, and the day's limit is reached
)

// pause is how long a purchase may take to reach the balance.
const pause = time.Minute

// Decide returns the action for a balance.
func (r Rules) Decide(now time.Time, balance policy.Micro, b Bought) Action {
	switch b = b.On(now); {
	case balance >= r.Threshold:
		return None
	case !r.Auto || r.Amount <= 0:
		return Warn
	case r.Amount > r.PerDay-b.Amount:
		return Limited
	case !b.Last.IsZero() && now.Sub(b.Last) < pause:
		return Wait
	}
	return TopUp
}

// On returns the purchases of the UTC day of now. A clock that is set back does not reset the limit.
func (b Bought) On(now time.Time) Bought {
	if day := now.UTC().Format(time.DateOnly); day > b.Day {
		return Bought{Day: day, Last: b.Last}
	}
	return b
}

// With returns the purchases with one more.
func (b Bought) With(now time.Time, amount policy.Micro) Bought {
	b = b.On(now)
	b.Amount, b.Last = b.Amount.Plus(amount), now.UTC()
	return b
}

// Without returns the purchases without one that was refused.
func (b Bought) Without(now time.Time, amount policy.Micro) Bought {
	b = b.On(now)
	b.Amount = max(b.Amount-amount, 0)
	return b
}
