package credit

import (
	"time"

	"bardo.money/gateway/policy"
)

// Rules say when credit is bought.
type Rules struct {
	Auto      bool
	Threshold policy.Micro // below it more is bought, or the operator is warned
	Amount    policy.Micro // of a purchase
	PerDay    policy.Micro // the most that is bought on a UTC day
}

// Bought are the purchases of a UTC day. One whose outcome is not known counts: the money may have been spent.
type Bought struct {
	Day    string       `json:"day,omitempty"` // 2006-01-02
	Amount policy.Micro `json:"usd"`
	Last   time.Time    `json:"last,omitzero"` // the time of the last one
}

// Action is what is done about a balance. Its values are those of the event bankr:credit_check.
type Action string

// The actions.
const (
	None    Action = "none"  // there is enough
	Warn    Action = "warn"  // there is little, and nothing is bought by itself
	TopUp   Action = "topup" // more is bought
	Wait    Action = "wait"  // a purchase is on its way
	Limited Action = "limit" // there is little, and the day's purchases are made
)

// pause is how long a purchase may take until the balance has it.
const pause = time.Minute

// Decide says what is done about a balance.
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

// On are the purchases of the UTC day of a time. A clock that is set back does not make room for more.
func (b Bought) On(now time.Time) Bought {
	if day := now.UTC().Format(time.DateOnly); day > b.Day {
		return Bought{Day: day, Last: b.Last}
	}
	return b
}

// With are the purchases with one more.
func (b Bought) With(now time.Time, amount policy.Micro) Bought {
	b = b.On(now)
	b.Amount, b.Last = b.Amount.Plus(amount), now.UTC()
	return b
}

// Without are the purchases without one that was refused.
func (b Bought) Without(now time.Time, amount policy.Micro) Bought {
	b = b.On(now)
	b.Amount = max(b.Amount-amount, 0)
	return b
}
