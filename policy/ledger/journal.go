package ledger

import (
	"fmt"
	"time"

	"bardo.money/gateway/policy"
)

// The operator's accounts, as the schema numbers them.
const (
	accountDeposits = 1 // what came in from outside, as a negative amount
	accountRevenue  = 2
	accountLoss     = 3 // answers that were served and could not be paid, as a negative amount
)

// entry is one line of a journal.
type entry struct {
	account int64
	amount  policy.Micro
}

// addJournal writes a journal with its entries, which sum to zero; entries of nothing are left out. The idempotency key
// is unique over all time: a second journal with it is ErrReused.
func (b *book) addJournal(kind, idem, ref string, at time.Time, entries []entry) (int64, error) {
	var id int64
	err := b.row(`INSERT INTO journal (idem, kind, at, ref) VALUES (?, ?, ?, ?) RETURNING id`, idem, kind, at.UnixMicro(), ref).Scan(&id)
	if isUnique(err) {
		return 0, fmt.Errorf("%w: %s", ErrReused, idem)
	}
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if e.amount == 0 {
			continue
		}
		if _, err := b.exec(`INSERT INTO entry (journal, account, amount) VALUES (?, ?, ?)`, id, e.account, e.amount); err != nil {
			return 0, err
		}
	}
	return id, nil
}
