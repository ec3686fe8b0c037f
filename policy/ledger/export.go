package ledger

import (
	"context"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/store"
)

// EachRequest yields the requests of a filter's account and times, one at a time and from one snapshot, with those that are not in the store yet. It stops at the
// first error that yield returns.
func (l *Ledger) EachRequest(ctx context.Context, f RequestFilter, yield func(*Request) error) error {
	v, err := l.view(ctx)
	if err != nil {
		return fmt.Errorf("requests: %w", err)
	}
	defer v.Close()
	return v.EachRequest(ctx, f, yield)
}

// Booking is what one entry of a journal moves: to the account, or from it if the amount is negative. Those of a journal sum to zero.
type Booking struct {
	Journal int64
	At      time.Time
	Kind    string // deposit or charge
	Ref     string // of the deposit, or the request's id
	Account policy.Account
	Amount  policy.Micro
}

// EachBooking yields the bookings of a period, one at a time and from one snapshot, journal by journal: of all accounts, or of the journals that moved money of
// one. A zero time is no limit. Charges that are not in the store yet have no journal. It stops at the first error that yield returns.
func (l *Ledger) EachBooking(ctx context.Context, f RequestFilter, yield func(*Booking) error) error {
	tx, err := l.reads.Start(ctx)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer tx.Close()
	since, until := f.Micros()
	err = store.Each(ctx, tx, scanBooking, yield, `SELECT j.id, j.at, j.kind, j.ref, a.name, e.amount
FROM journal j JOIN entry e ON e.journal = j.id JOIN account a ON a.id = e.account
WHERE j.at BETWEEN ?1 AND ?2
	AND (?3 = '' OR EXISTS (SELECT 1 FROM entry o JOIN account n ON n.id = o.account WHERE o.journal = j.id AND n.name = ?3))
ORDER BY j.id, e.account`, since, until, f.Account)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

func scanBooking(row store.Scanner) (p Booking, err error) {
	var at int64
	err = row.Scan(&p.Journal, &at, &p.Kind, &p.Ref, &p.Account, &p.Amount)
	p.At = time.UnixMicro(at)
	return p, err
}
