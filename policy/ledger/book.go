package ledger

import (
	"time"

	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

// book is the connection that writes, with what its transaction adds to the sums of usage, and with the batch of charges at hand.
type book struct {
	*store.Book

	tally *usage.Tally
	batch batch
	now   func() time.Time
}

func newBook(b *store.Book, now func() time.Time) *book {
	return &book{Book: b, tally: usage.NewTally(), now: now}
}

// atomically runs one change in a transaction of its own.
func (b *book) atomically(change func(*book) error) error {
	err := b.Atomically(func() error {
		if err := change(b); err != nil {
			return err
		}
		return b.tally.Write(b.Book)
	})
	if err != nil {
		b.tally.Clear()
	}
	return err
}
