package ledger

import (
	"time"

	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

// book is the write connection, with the usage that its transaction adds and the batch of charges that is being applied.
type book struct {
	*store.Book

	tally *usage.Tally
	batch batch
	now   func() time.Time
}

func newBook(b *store.Book, now func() time.Time) *book {
	return &book{Book: b, tally: usage.NewTally(), now: now}
}

// atomically runs a change in a transaction of its own.
func (b *book) atomically(change func(*book) error) error {
	return b.tally.Atomically(b.Book, func() error { return change(b) })
}

// do commits a change and returns once it is durable or has failed. done, which may be nil, is called with the result before the next commit.
func (l *Ledger) do(change func(*book) error, done func(error)) error {
	return l.writer.Do(func() error { return change(l.book) }, done)
}

// write commits a change.
func (l *Ledger) write(change func(*book) error) error { return l.do(change, nil) }

// between runs a function with exclusive use of the book, between two commits. Only the janitor may call it, which ends before the writer does.
func (l *Ledger) between(run func(*book) error) error {
	return l.writer.Between(func() error { return run(l.book) })
}
