// Package usage has the usage of requests: their rows, sums by day, model and subsystem, savings of layers, spending of agents, feedback of callers,
// and counts of refused requests. A Tally adds a transaction's requests to the sums; a View reads them, including charges that the
// store does not have yet. It knows no balance, and moves no money.
package usage

import (
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// Tally has the amounts that one transaction adds to the sums. They are committed with the charges.
type Tally struct {
	sums     sums
	spending spending
	savings  savings
}

// NewTally returns an empty tally.
func NewTally() *Tally { return &Tally{sums{}, spending{}, savings{}} }

// Add counts a charge, of which the account paid charged. An op calls it as its last step.
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

// write adds the amounts to the stored sums, and empties the tally. After an error the caller must clear it.
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
