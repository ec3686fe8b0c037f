// Package usage is what requests have used: their rows, the sums by day, model and subsystem, what each layer saved, what agents spent, what callers said
// of answers, and counts of refused requests. A Tally writes what a transaction adds to the sums; a View reads them, with the charges that the
// store does not have yet. It knows no balance, and moves no money.
package usage

import (
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// Tally is what one transaction adds to the sums: it is committed with the charges.
type Tally struct {
	sums     sums
	spending spending
	savings  savings
}

// NewTally is one that has nothing.
func NewTally() *Tally { return &Tally{sums{}, spending{}, savings{}} }

// Add counts a charge, and what of it the account paid. An op calls it as its last step.
func (t *Tally) Add(c *chargelog.Charge, charged policy.Micro) {
	t.sums.add(c, charged)
	t.spending.add(c, charged)
	t.savings.add(c)
}

// Atomically runs a change in a transaction of its own, and writes the tally in it. After an error nothing was changed and the tally is empty.
func (t *Tally) Atomically(b *store.Book, change func() error) error {
	err := b.Atomically(func() error {
		if err := change(); err != nil {
			return err
		}
		return t.write(b)
	})
	if err != nil {
		t.clear()
	}
	return err
}

// write adds everything to the store, and empties the tally. After an error it is to be cleared.
func (t *Tally) write(b *store.Book) error {
	if err := t.sums.write(b); err != nil {
		return err
	}
	if err := t.spending.write(b); err != nil {
		return err
	}
	return t.savings.write(b)
}

// clear empties the tally of a transaction that failed.
func (t *Tally) clear() {
	clear(t.sums)
	clear(t.spending)
	clear(t.savings)
}
