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
	Cost   policy.Micro // of its request, with the fee: at most the payment
	Owed   policy.Micro // of it
	Pardon *Pardon      // nil: it was not forgiven

	journal int64
	amount  policy.Micro // of the payment
}

// Forgiveness says which losses of a wallet are forgiven, and why.
type Forgiveness struct {
	Refs     []string          // of their payments; nil: of all that there are by now
	Requests map[string]string // of all payments of the wallet that failed, by reference: what they cost is what is owed for them
	Via      string
	Reason   string
}

// Forgiven is what of a wallet's losses was forgiven.
type Forgiven struct {
	Losses []Loss       // all that were to be, in the order in which they were lost
	Amount policy.Micro // of those that were not forgiven before
	Again  bool         // all of them were
	Owed   policy.Micro // what the wallet still owes
	Rest   []Loss       // for these
}

// Forgive forgives losses of a wallet. What of them is owed is owed no more, and a wallet that owes nothing is unblocked, at each gateway with its next request. A
// loss that was forgiven before stays as it is. The error is ErrUnknownKey, ErrNoLoss, with nothing changed, ErrClosed, or the store's.
func (l *Ledger) Forgive(ctx context.Context, acct policy.Account, which Forgiveness) (f Forgiven, err error) {
	if err := ctx.Err(); err != nil {
		return Forgiven{}, err
	}
	err = l.writer.do(func(b *book) (err error) {
		f, err = b.forgive(acct, &which)
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

func (b *book) forgive(acct policy.Account, which *Forgiveness) (f Forgiven, err error) {
	row, err := b.prepaidBalance(acct)
	if err != nil {
		return Forgiven{}, err
	}
	all, err := b.losses(acct, which.Requests)
	if err != nil {
		return Forgiven{}, err
	}
	attribute(all, row.owed)
	if f.Losses, err = pick(all, which.Refs); err != nil {
		return Forgiven{}, err
	}
	f.Again, f.Owed = true, row.owed
	for i := range f.Losses {
		one := &f.Losses[i]
		if one.Pardon != nil {
			continue
		}
		pardon := Pardon{one.Owed, b.now().UTC(), which.Via, which.Reason}
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

// losses are those of a wallet, the oldest first.
func (b *book) losses(acct policy.Account, requests map[string]string) ([]Loss, error) {
	first := LossKey(acct, "")
	behind := strings.TrimSuffix(first, ":") + ";" // the next character
	all, err := store.ReadAll(context.Background(), b, scanLoss, `SELECT j.id, j.ref, coalesce(e.amount, 0), coalesce(f.micro, -1), coalesce(f.at, 0), coalesce(f.via, ''), coalesce(f.reason, '')
FROM journal j LEFT JOIN entry e ON e.journal = j.id AND e.account = 1 LEFT JOIN forgiven f ON f.journal = j.id
WHERE j.idem > ?1 AND j.idem < ?2 ORDER BY j.id`, first, behind)
	for i := range all {
		one := &all[i]
		one.Cost = one.amount
		if request, ok := requests[one.Ref]; ok && err == nil {
			err = b.Row(`SELECT CAST(coalesce(sum(e.amount), 0) AS BIGINT) FROM journal j JOIN entry e ON e.journal = j.id AND e.account = 2 WHERE j.idem = ?1 OR j.idem = ?2`,
				DepositKey(acct, one.Ref), ChargeKey(request)).Scan(&one.Cost)
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
