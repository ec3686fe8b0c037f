package ledger

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

// An operator may forgive losses. It moves no money: what a wallet owes is no balance, and the operator has paid the loss when it was booked. A loss is forgiven
// once, whatever is recovered or forgiven at the same time: both change what the wallet owes, in transactions of the one writer that the store has at a time.

// ErrNoLoss says that a wallet has no such loss.
var ErrNoLoss = errors.New("there is no such loss")

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
	Amount policy.Micro // what its wallet did not have
	Owed   policy.Micro // of it. What was recovered is of the oldest losses first
	Pardon *Pardon      // nil: it was not forgiven

	journal int64
}

// Forgiven is what of a wallet's losses was forgiven.
type Forgiven struct {
	Losses []Loss       // all that were to be, in the order in which they were lost
	Amount policy.Micro // of those that were not forgiven before
	Again  bool         // all of them were
	Owed   policy.Micro // what the wallet still owes
	Rest   []Loss       // for these
}

// Forgive forgives losses of a wallet, by the references of their payments, or all that it has by now if refs is nil. What of them is owed is owed no more, and a
// wallet that owes nothing is unblocked, at each gateway with its next request. A loss that was forgiven before stays as it is. The error is ErrUnknownKey,
// ErrNoLoss, with nothing changed, ErrClosed, or the store's.
func (l *Ledger) Forgive(ctx context.Context, acct policy.Account, refs []string, via, reason string) (f Forgiven, err error) {
	if err := ctx.Err(); err != nil {
		return Forgiven{}, err
	}
	err = l.writer.do(func(b *book) (err error) {
		f, err = b.forgive(acct, refs, &Pardon{At: b.now(), Via: via, Reason: reason})
		return err
	}, nil)
	if err != nil {
		return Forgiven{}, fmt.Errorf("losses of %s: %w", acct, err)
	}
	return f, nil
}

// Pardons are how losses were forgiven, by their idempotency keys (LossKey), of those that were.
func (l *Ledger) Pardons(ctx context.Context, keys []string) (map[string]Pardon, error) {
	found := map[string]Pardon{}
	err := store.Each(ctx, l.reads, func(row store.Scanner) (key string, err error) {
		var p Pardon
		var at int64
		err = row.Scan(&key, &p.Amount, &at, &p.Via, &p.Reason)
		p.At = time.UnixMicro(at).UTC()
		found[key] = p
		return key, err
	}, func(*string) error { return nil }, `SELECT j.idem, f.micro, f.at, f.via, f.reason FROM journal j JOIN forgiven f ON f.journal = j.id WHERE j.idem `+l.reads.Among, l.reads.Texts(keys))
	if err != nil {
		return nil, fmt.Errorf("losses that were forgiven: %w", err)
	}
	return found, nil
}

func (b *book) forgive(acct policy.Account, refs []string, p *Pardon) (f Forgiven, err error) {
	row, err := b.prepaidBalance(acct)
	if err != nil {
		return Forgiven{}, err
	}
	all, err := b.losses(acct, row.owed)
	if err != nil {
		return Forgiven{}, err
	}
	if f.Losses, err = pick(all, refs); err != nil {
		return Forgiven{}, err
	}
	f.Again, f.Owed = true, row.owed
	for i := range f.Losses {
		one := &f.Losses[i]
		if one.Pardon != nil {
			continue
		}
		pardon := *p
		pardon.Amount = one.Owed
		if _, err := b.Exec(`INSERT INTO forgiven (account, journal, micro, at, via, reason) VALUES (?, ?, ?, ?, ?, ?)`,
			row.account, one.journal, pardon.Amount, pardon.At.UnixMicro(), pardon.Via, pardon.Reason); err != nil {
			return Forgiven{}, err
		}
		one.Pardon, one.Owed, f.Again = &pardon, 0, false
		f.Amount += pardon.Amount
	}
	f.Owed -= f.Amount
	for _, other := range all {
		if other.Owed > 0 && !slices.ContainsFunc(f.Losses, func(l Loss) bool { return l.Ref == other.Ref }) {
			f.Rest = append(f.Rest, other)
		}
	}
	if !f.Again {
		_, err = b.Exec(`UPDATE balance SET owed = owed - ?1, forgiven = forgiven + ?1, blocked = CASE WHEN owed > ?1 THEN 1 ELSE 0 END WHERE account = ?2`, f.Amount, row.account)
	}
	return f, err
}

// pick is the losses of some payments, or all.
func pick(all []Loss, refs []string) (picked []Loss, err error) {
	for _, ref := range refs {
		if !slices.ContainsFunc(all, func(l Loss) bool { return l.Ref == ref }) {
			return nil, fmt.Errorf("%w: %s", ErrNoLoss, ref)
		}
	}
	for _, one := range all {
		if refs == nil || slices.Contains(refs, one.Ref) {
			picked = append(picked, one)
		}
	}
	if len(picked) == 0 {
		return nil, ErrNoLoss
	}
	return picked, nil
}

// losses are those of a wallet that owes an amount, the oldest first.
func (b *book) losses(acct policy.Account, owed policy.Micro) ([]Loss, error) {
	first := LossKey(acct, "")
	behind := strings.TrimSuffix(first, ":") + ";" // the next character
	all, err := store.ReadAll(context.Background(), b, scanLoss, `SELECT j.id, j.ref, coalesce(-e.amount, 0), coalesce(f.micro, -1), coalesce(f.at, 0), coalesce(f.via, ''), coalesce(f.reason, '')
FROM journal j LEFT JOIN entry e ON e.journal = j.id AND e.account = 3 LEFT JOIN forgiven f ON f.journal = j.id
WHERE j.idem > ?1 AND j.idem < ?2 ORDER BY j.id`, first, behind)
	attribute(all, owed)
	return all, err
}

func scanLoss(row store.Scanner) (one Loss, err error) {
	var p Pardon
	var at int64
	if err = row.Scan(&one.journal, &one.Ref, &one.Amount, &p.Amount, &at, &p.Via, &p.Reason); err == nil && p.Amount >= 0 {
		p.At = time.UnixMicro(at).UTC()
		one.Pardon = &p
	}
	return one, err
}

// attribute says what is owed of each loss, in all what their wallet owes. What is neither owed nor forgiven was recovered, of the oldest losses first, so a loss
// that was forgiven has nothing left that could be owed again.
func attribute(all []Loss, owed policy.Micro) {
	recovered := -owed
	for i := range all {
		recovered += all[i].open()
	}
	for i := range all {
		part := max(0, min(recovered, all[i].open()))
		recovered -= part
		all[i].Owed = all[i].open() - part
	}
}

// open is what of a loss was not forgiven.
func (l *Loss) open() policy.Micro {
	if l.Pardon == nil {
		return l.Amount
	}
	return l.Amount - l.Pardon.Amount
}
