package ledger

import (
	"context"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

// EachRequest yields the requests of a filter's account and period, one at a time and from one snapshot, including those that are not in the store yet. It stops
// at the first error that yield returns.
func (l *Ledger) EachRequest(ctx context.Context, f RequestFilter, yield func(*Request) error) (err error) {
	defer asUnavailable(&err)
	v, err := l.view(ctx)
	if err != nil {
		return fmt.Errorf("requests: %w", err)
	}
	defer v.Close()
	return v.EachRequest(ctx, f, yield)
}

// Booking is one entry of a journal: an amount to the account, or from it if negative. Those of a journal sum to zero.
type Booking struct {
	Journal int64
	At      time.Time
	Kind    string // deposit or charge
	Ref     string // of the deposit, or the request's id
	Account policy.Account
	Amount  policy.Micro
}

// EachBooking yields the bookings of a period, one at a time and from one snapshot, in the order of journals: of all journals, or of those with an entry of one
// account. A zero time is no limit. Charges that are not in the store yet have no journal. It stops at the first error that yield returns.
func (l *Ledger) EachBooking(ctx context.Context, f RequestFilter, yield func(*Booking) error) (err error) {
	defer asUnavailable(&err)
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

// Mark is a position in the insertion order of requests. The zero value is before all.
type Mark = usage.Mark

// LastMark is the position of the last request. In PostgreSQL, transactions that are still open may add requests before it.
func (l *Ledger) LastMark(ctx context.Context) (m Mark, err error) {
	defer asUnavailable(&err)
	m, err = usage.LastMark(ctx, l.reads)
	if err != nil {
		return m, fmt.Errorf("requests: %w", err)
	}
	return m, nil
}

// RequestsAfter returns up to limit requests in the store after a mark and up to another, in insertion order, and the mark of the last one. If the mark's
// request was removed, they begin with the first one: none is skipped, and some may be returned again.
func (l *Ledger) RequestsAfter(ctx context.Context, m, last Mark, limit int) (list []Request, next Mark, err error) {
	defer asUnavailable(&err)
	if list, next, err = usage.After(ctx, l.reads, m, last, limit); err != nil {
		return nil, m, fmt.Errorf("requests: %w", err)
	}
	return list, next, nil
}
