// Package losses has the losses by wallets' payments that never arrived after their requests were served, the wallets' debts for them, and what was forgiven by the
// operator. It moves no money: a debt is not a balance, and the operator paid the loss when it was booked.
package losses

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/store"
)

// ErrNone says that a wallet has no such loss.
var ErrNone = errors.New("there is no such loss")

// Forgiveness records that, when and why the operator forgave a loss.
type Forgiveness struct {
	Amount policy.Micro `json:"usd"` // still owed at that time
	At     time.Time    `json:"at"`
	Via    string       `json:"via"` // the operator's interface: socket or http
	Reason string       `json:"reason"`
}

// Loss is a payment that never arrived and was taken back.
type Loss struct {
	Ref         string       // of the payment
	Cost        policy.Micro // of its request, with the fee: at most the payment
	Owed        policy.Micro // the part that is still owed
	Forgiveness *Forgiveness // nil: not forgiven

	journal int64
	amount  policy.Micro // of the payment
}

// Wallet is a wallet's debt in the store.
type Wallet struct {
	Row       int64                // its account's id
	Owed      policy.Micro         // its debt
	KeyPrefix string               // the prefix of its losses' idempotency keys, up to a colon
	CostKeys  map[string][2]string // by reference of a payment: the keys of the journals with its fee and its request's cost; without them the cost is the payment
}

// ForgiveResult is the result of Forgive.
type ForgiveResult struct {
	Losses    []Loss       // the selected ones, oldest first
	Amount    policy.Micro // newly forgiven
	Again     bool         // all of them were forgiven before
	Owed      policy.Micro // the remaining debt
	StillOwed []Loss       // the other losses that are still owed
}

// Forgive forgives losses by the references of their payments, or all of a wallet if refs is nil: each once, with the part that is owed. It must run in a
// transaction of the writer, like all changes of the debt. The error is ErrNone, or the store's.
func Forgive(b *store.Book, w *Wallet, refs []string, p Forgiveness) (f ForgiveResult, err error) {
	all, err := read(b, w)
	if err != nil {
		return ForgiveResult{}, err
	}
	attribute(all, w.Owed)
	if f.Losses, err = pick(all, refs); err != nil {
		return ForgiveResult{}, err
	}
	f.Again = true
	for i := range f.Losses {
		one := &f.Losses[i]
		if one.Forgiveness != nil {
			continue
		}
		forgiveness := p
		forgiveness.Amount = one.Owed
		if _, err := b.Exec(`INSERT INTO forgiven (account, journal, micro, at, via, reason) VALUES (?, ?, ?, ?, ?, ?)`,
			w.Row, one.journal, forgiveness.Amount, forgiveness.At.UnixMicro(), forgiveness.Via, forgiveness.Reason); err != nil {
			return ForgiveResult{}, err
		}
		one.Forgiveness, one.Owed, f.Again = &forgiveness, 0, false
		f.Amount += forgiveness.Amount
	}
	f.Owed = w.Owed - f.Amount
	for _, other := range all {
		if other.Owed > 0 && !slices.ContainsFunc(f.Losses, func(l Loss) bool { return l.Ref == other.Ref }) {
			f.StillOwed = append(f.StillOwed, other)
		}
	}
	if !f.Again {
		_, err = b.Exec(`UPDATE balance SET owed = owed - ?1, forgiven = forgiven + ?1, blocked = CASE WHEN owed > ?1 THEN 1 ELSE 0 END WHERE account = ?2`, f.Amount, w.Row)
	}
	return f, err
}

// ForgivenLosses returns how losses were forgiven, by their idempotency keys. Losses that were not forgiven are missing in the result.
func ForgivenLosses(ctx context.Context, reads *store.Readers, keys []string) (map[string]Forgiveness, error) {
	found := map[string]Forgiveness{}
	err := store.Each(ctx, reads, func(row store.Scanner) (key string, err error) {
		var p Forgiveness
		var at int64
		err = row.Scan(&key, &p.Amount, &at, &p.Via, &p.Reason)
		p.At = time.UnixMicro(at).UTC()
		found[key] = p
		return key, err
	}, func(*string) error { return nil }, `SELECT j.idem, f.micro, f.at, f.via, f.reason FROM journal j JOIN forgiven f ON f.journal = j.id WHERE j.idem `+reads.InList, reads.StringList(keys))
	return found, err
}

// pick selects the losses of some payments, or all if refs is nil.
func pick(all []Loss, refs []string) (picked []Loss, err error) {
	for _, ref := range refs {
		if !slices.ContainsFunc(all, func(l Loss) bool { return l.Ref == ref }) {
			return nil, fmt.Errorf("%w: %s", ErrNone, ref)
		}
	}
	for _, one := range all {
		if refs == nil || slices.Contains(refs, one.Ref) {
			picked = append(picked, one)
		}
	}
	if len(picked) == 0 {
		return nil, ErrNone
	}
	return picked, nil
}

// read reads the losses of a wallet, oldest first.
func read(b *store.Book, w *Wallet) ([]Loss, error) {
	behind := strings.TrimSuffix(w.KeyPrefix, ":") + ";" // the next character
	all, err := store.ReadAll(context.Background(), b, scanLoss, `SELECT j.id, j.ref, coalesce(e.amount, 0), coalesce(f.micro, -1), coalesce(f.at, 0), coalesce(f.via, ''), coalesce(f.reason, '')
FROM journal j LEFT JOIN entry e ON e.journal = j.id AND e.account = 1 LEFT JOIN forgiven f ON f.journal = j.id
WHERE j.idem > ?1 AND j.idem < ?2 ORDER BY j.id`, w.KeyPrefix, behind)
	for i := range all {
		one := &all[i]
		one.Cost = one.amount
		if keys, ok := w.CostKeys[one.Ref]; ok && err == nil {
			err = b.Row(`SELECT CAST(coalesce(sum(e.amount), 0) AS BIGINT) FROM journal j JOIN entry e ON e.journal = j.id AND e.account = 2 WHERE j.idem = ?1 OR j.idem = ?2`,
				keys[0], keys[1]).Scan(&one.Cost)
			one.Cost = min(one.Cost, one.amount)
		}
	}
	return all, err
}

func scanLoss(row store.Scanner) (one Loss, err error) {
	var p Forgiveness
	var at int64
	if err = row.Scan(&one.journal, &one.Ref, &one.amount, &p.Amount, &at, &p.Via, &p.Reason); err == nil && p.Amount >= 0 {
		p.At = time.UnixMicro(at).UTC()
		one.Forgiveness = &p
	}
	return one, err
}

// attribute distributes a wallet's debt over its losses: to those that were not forgiven, the latest first, up to each one's cost, because recoveries and the
// balance have paid the earlier ones. A rest is the cost of other requests that were paid with these payments' credit: it is distributed
// the latest first, up to each payment. So a forgiven loss is never owed again, and if all are forgiven, nothing is owed.
func attribute(all []Loss, owed policy.Micro) {
	for _, limit := range []func(*Loss) policy.Micro{func(l *Loss) policy.Micro { return l.Cost }, func(l *Loss) policy.Micro { return l.amount }} {
		for i := range slices.Backward(all) {
			one := &all[i]
			if one.Forgiveness == nil {
				part := max(0, min(owed, limit(one)-one.Owed))
				one.Owed += part
				owed -= part
			}
		}
	}
}
