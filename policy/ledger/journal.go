package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"bardo.money/gateway/policy"
)

// The ids of the operator's accounts.
const (
	accountDeposits = 1 // deposits, as a negative amount
	accountRevenue  = 2
	accountLoss     = 3 // unpaid charges, as a negative amount
)

// entry is one line of a journal.
type entry struct {
	account int64
	amount  policy.Micro
}

// addJournal inserts a journal with its entries, which sum to zero; zero entries are left out. The idempotency key is unique forever: a second
// journal with it is ErrReused.
func (b *book) addJournal(kind, idem, ref string, at time.Time, entries []entry) (int64, error) {
	var id int64
	err := b.Row(`INSERT INTO journal (id, idem, kind, at, ref) SELECT coalesce(max(id), 0) + 1, ?, ?, ?, ? FROM journal WHERE TRUE
ON CONFLICT (idem) DO NOTHING RETURNING id`,
		idem, kind, at.UnixMicro(), ref).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("%w: %s", ErrReused, idem)
	}
	if err != nil {
		return 0, err
	}
	return id, b.addEntries(id, slices.DeleteFunc(entries, func(e entry) bool { return e.amount == 0 }))
}

// addEntries inserts the lines of a journal, two at a time: most journals have two.
func (b *book) addEntries(journal int64, entries []entry) error {
	for ; len(entries) >= 2; entries = entries[2:] {
		x, y := entries[0], entries[1]
		if _, err := b.Exec(`INSERT INTO entry (journal, account, amount) VALUES (?1, ?2, ?3), (?1, ?4, ?5)`,
			journal, x.account, x.amount, y.account, y.amount); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if _, err := b.Exec(`INSERT INTO entry (journal, account, amount) VALUES (?, ?, ?)`, journal, e.account, e.amount); err != nil {
			return err
		}
	}
	return nil
}
