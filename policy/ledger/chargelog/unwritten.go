package chargelog

import (
	"fmt"

	"bardo.money/gateway/policy"
)

// Unwritten are charges that are not in the store yet.
type Unwritten struct {
	Charges  int          `json:"charges"`
	Amount   policy.Micro `json:"usd"`
	InMemory Waiting      `json:"in_memory"` // the part that is not in a charge log and is lost if the process is killed
}

// Waiting is the number and sum of some charges.
type Waiting struct {
	Charges int          `json:"charges"`
	Amount  policy.Micro `json:"usd"`
}

// Plus is the sum with one more charge. A zero amount is not counted.
func (u Unwritten) Plus(amount policy.Micro, inMemory bool) Unwritten {
	if amount == 0 {
		return u
	}
	u.Charges++
	u.Amount += amount
	if inMemory {
		u.InMemory.Charges++
		u.InMemory.Amount += amount
	}
	return u
}

// String is the text in logs and audits.
func (u Unwritten) String() string {
	return fmt.Sprintf("%d charges of %s USD, %d of them in memory alone", u.Charges, u.Amount, u.InMemory.Charges)
}
