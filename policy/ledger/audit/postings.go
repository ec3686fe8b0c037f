package audit

import (
	"context"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/store"
)

// Posting is the amounts that one journal moved.
type Posting struct {
	Journal  int64          // its id; zero for a charge that is not in the store yet
	Key      string         // the idempotency key, which is unique
	Account  policy.Account // of a key or a wallet; "" if only the operator's accounts changed
	Amount   policy.Micro   // to the account
	Revenue  policy.Micro   // to the operator
	Deposits policy.Micro   // from outside; negative if a payment did not arrive
	Loss     policy.Micro   // paid by the operator for the account
}

// selectPostings is completed by a condition on the journal. The accounts 1 to 3 are the operator's.
const selectPostings = `SELECT j.id, j.idem, coalesce(max(CASE WHEN a.id > 3 THEN a.name END), ''),
	coalesce(sum(CASE WHEN a.id > 3 THEN e.amount END), 0), coalesce(sum(CASE WHEN a.id = 2 THEN e.amount END), 0),
	coalesce(-sum(CASE WHEN a.id = 1 THEN e.amount END), 0), coalesce(-sum(CASE WHEN a.id = 3 THEN e.amount END), 0)
FROM journal j JOIN entry e ON e.journal = j.id JOIN account a ON a.id = e.account WHERE `

// Postings reads the journals with some idempotency keys.
func Postings(ctx context.Context, tx *store.Snapshot, keys []string) (map[string]Posting, error) {
	list, err := store.ReadAll(ctx, tx, scanPosting, selectPostings+`j.idem `+tx.InList+` GROUP BY j.id, j.idem`, tx.StringList(keys))
	found := make(map[string]Posting, len(list))
	for _, p := range list {
		found[p.Key] = p
	}
	return found, err
}

// Deposits reads up to limit journals after one, in order, of deposits whose reference begins with a prefix.
func Deposits(ctx context.Context, reads *store.Readers, prefix string, after int64, limit int) ([]Posting, error) {
	return store.ReadAll(ctx, reads, scanPosting, selectPostings+`j.id > ?1 AND j.kind = 'deposit' AND j.ref LIKE ?2 GROUP BY j.id, j.idem ORDER BY j.id LIMIT ?3`,
		after, prefix+"%", limit)
}

func scanPosting(row store.Scanner) (p Posting, err error) {
	err = row.Scan(&p.Journal, &p.Key, &p.Account, &p.Amount, &p.Revenue, &p.Deposits, &p.Loss)
	return p, err
}

// Add adds a check to a report.
func (r *Report) Add(name string, offending []string) {
	r.Checks = append(r.Checks, Check{Name: name, OK: len(offending) == 0, Offending: offending[:min(len(offending), maxOffending)]})
	r.OK = r.OK && len(offending) == 0
}
