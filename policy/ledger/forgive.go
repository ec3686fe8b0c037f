package ledger

import (
	"context"
	"fmt"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/losses"
)

type (
	// Pardon is how a loss was forgiven.
	Pardon = losses.Pardon
	// Loss is a payment that never arrived.
	Loss = losses.Loss
	// Forgiven is what of a wallet's losses was forgiven.
	Forgiven = losses.Forgiven
)

// ErrNoLoss says that a wallet has no such loss.
var ErrNoLoss = losses.ErrNone

// Forgiveness says which losses of a wallet are forgiven, and why.
type Forgiveness struct {
	Refs     []string          // of their payments; nil: of all that there are by now
	Requests map[string]string // of all payments of the wallet that failed, by reference: what they cost is what is owed for them
	Via      string            // how the operator does it
	Reason   string
}

// Forgive forgives losses of a wallet. What of them is owed is owed no more, and a wallet that owes nothing is unblocked, at each gateway with its next request. A
// loss that was forgiven before stays as it is. The error is ErrUnknownKey, ErrNoLoss, with nothing changed, ErrClosed, or the store's.
func (l *Ledger) Forgive(ctx context.Context, acct policy.Account, which Forgiveness) (f Forgiven, err error) {
	if err := ctx.Err(); err != nil {
		return Forgiven{}, err
	}
	err = l.do(func(b *book) error {
		row, err := b.prepaidBalance(acct)
		if err != nil {
			return err
		}
		w := losses.Wallet{Row: row.account, Owed: row.owed, Keys: LossKey(acct, ""), Costs: map[string][2]string{}}
		for ref, request := range which.Requests {
			w.Costs[ref] = [2]string{DepositKey(acct, ref), ChargeKey(request)}
		}
		f, err = losses.Forgive(b.Book, &w, which.Refs, Pardon{At: b.now().UTC(), Via: which.Via, Reason: which.Reason})
		return err
	}, nil)
	if err != nil {
		return Forgiven{}, fmt.Errorf("losses of %s: %w", acct, err)
	}
	return f, nil
}

// Pardons are how losses were forgiven, by their idempotency keys (LossKey), of those that were.
func (l *Ledger) Pardons(ctx context.Context, keys []string) (found map[string]Pardon, err error) {
	defer tellAway(&err)
	if found, err = losses.Pardons(ctx, l.reads, keys); err != nil {
		return nil, fmt.Errorf("losses that were forgiven: %w", err)
	}
	return found, nil
}
