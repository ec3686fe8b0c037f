// Package losses has what wallets lost: payments that never arrived after their requests were served, what of that they owe, and what an operator has forgiven. It
// moves no money: what a wallet owes is no balance, and the operator has paid the loss when it was booked.
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

// Pardon is how a loss was forgiven.
type Pardon struct {
	Amount policy.Micro `json:"usd"` // that was still owed of it
	At     time.Time    `json:"at"`
	Via    string       `json:"via"` // how the operator did it: socket or http
	Reason string       `json:"reason"`
}

// Loss is a payment that never arrived, as it was taken back.
type Loss struct {
	Ref    string       // of the payment
	Cost   policy.Micro // of its request, with the fee: at most the payment
	Owed   policy.Micro // of it
	Pardon *Pardon      // nil: it was not forgiven

	journal int64
	amount  policy.Micro // of the payment
}

// Wallet is a wallet as the store has it.
type Wallet struct {
	Row   int64                // of its account
	Owed  policy.Micro         // by it
	Keys  string               // what the idempotency keys of its losses begin with, up to a colon
	Costs map[string][2]string // by reference of a payment, the keys of the journals that have its fee and what its request cost; without them it cost all that it was
}

// Forgiven is what of a wallet's losses was forgiven.
type Forgiven struct {
	Losses []Loss       // all that were to be, in the order in which they were lost
	Amount policy.Micro // of those that were not forgiven before
	Again  bool         // all of them were
	Owed   policy.Micro // what the wallet still owes
	Rest   []Loss       // for these
}

// Forgive forgives losses by the references of their payments, or all of a wallet if refs is nil: each once, with what is owed of it. It runs in a transaction of the
// one writer that a store has at a time, as does whatever else changes what the wallet owes. The error is ErrNone, or the store's.
func Forgive(b *store.Book, w *Wallet, refs []string, p Pardon) (f Forgiven, err error) {
	all, err := read(b, w)
	if err != nil {
		return Forgiven{}, err
	}
	attribute(all, w.Owed)
	if f.Losses, err = pick(all, refs); err != nil {
		return Forgiven{}, err
	}
	f.Again = true
	for i := range f.Losses {
		one := &f.Losses[i]
		if one.Pardon != nil {
			continue
		}
		pardon := p
		pardon.Amount = one.Owed
		if _, err := b.Exec(`INSERT INTO forgiven (account, journal, micro, at, via, reason) VALUES (?, ?, ?, ?, ?, ?)`,
			w.Row, one.journal, pardon.Amount, pardon.At.UnixMicro(), pardon.Via, pardon.Reason); err != nil {
			return Forgiven{}, err
		}
		one.Pardon, one.Owed, f.Again = &pardon, 0, false
		f.Amount += pardon.Amount
	}
	f.Owed = w.Owed - f.Amount
	for _, other := range all {
		if other.Owed > 0 && !slices.ContainsFunc(f.Losses, func(l Loss) bool { return l.Ref == other.Ref }) {
			f.Rest = append(f.Rest, other)
		}
	}
	if !f.Again {
		_, err = b.Exec(`UPDATE balance SET owed = owed - ?1, forgiven = forgiven + ?1, blocked = CASE WHEN owed > ?1 THEN 1 ELSE 0 END WHERE account = ?2`, f.Amount, w.Row)
	}
	return f, err
}

// Pardons are how losses were forgiven, by their idempotency keys, of those that were.
func Pardons(ctx context.Context, reads *store.Readers, keys []string) (map[string]Pardon, error) {
	found := map[string]Pardon{}
	err := store.Each(ctx, reads, func(row store.Scanner) (key string, err error) {
		var p Pardon
		var at int64
		err = row.Scan(&key, &p.Amount, &at, &p.Via, &p.Reason)
		p.At = time.UnixMicro(at).UTC()
		found[key] = p
		return key, err
	}, func(*string) error { return nil }, `SELECT j.idem, f.micro, f.at, f.via, f.reason FROM journal j JOIN forgiven f ON f.journal = j.id WHERE j.idem `+reads.Among, reads.Texts(keys))
	return found, err
}

// pick is the losses of some payments, or all.
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

// read is the losses of a wallet, the oldest first.
func read(b *store.Book, w *Wallet) ([]Loss, error) {
	behind := strings.TrimSuffix(w.Keys, ":") + ";" // the next character
	all, err := store.ReadAll(context.Background(), b, scanLoss, `SELECT j.id, j.ref, coalesce(e.amount, 0), coalesce(f.micro, -1), coalesce(f.at, 0), coalesce(f.via, ''), coalesce(f.reason, '')
FROM journal j LEFT JOIN entry e ON e.journal = j.id AND e.account = 1 LEFT JOIN forgiven f ON f.journal = j.id
WHERE j.idem > ?1 AND j.idem < ?2 ORDER BY j.id`, w.Keys, behind)
	for i := range all {
		one := &all[i]
		one.Cost = one.amount
		if keys, ok := w.Costs[one.Ref]; ok && err == nil {
			err = b.Row(`SELECT CAST(coalesce(sum(e.amount), 0) AS BIGINT) FROM journal j JOIN entry e ON e.journal = j.id AND e.account = 2 WHERE j.idem = ?1 OR j.idem = ?2`,
				keys[0], keys[1]).Scan(&one.Cost)
			one.Cost = min(one.Cost, one.amount)
		}
	}
	return all, err
}

func scanLoss(row store.Scanner) (one Loss, err error) {
	var p Pardon
	var at int64
	if err = row.Scan(&one.journal, &one.Ref, &one.amount, &p.Amount, &at, &p.Via, &p.Reason); err == nil && p.Amount >= 0 {
		p.At = time.UnixMicro(at).UTC()
		one.Pardon = &p
	}
	return one, err
}

// attribute says for which losses a wallet owes what it owes: for those that were not forgiven, the latest first, for each what it cost, since what was recovered,
// or was there when they were taken back, has paid the earlier ones. What is more than that is what other requests cost that were paid with the credit of these
// payments: the latest first, up to what each would have brought. So a loss that was forgiven is never owed again, and who is forgiven all owes nothing.
func attribute(all []Loss, owed policy.Micro) {
	for _, most := range []func(*Loss) policy.Micro{func(l *Loss) policy.Micro { return l.Cost }, func(l *Loss) policy.Micro { return l.amount }} {
		for i := range slices.Backward(all) {
			one := &all[i]
			if one.Pardon == nil {
				part := max(0, min(owed, most(one)-one.Owed))
				one.Owed += part
				owed -= part
			}
		}
	}
}
