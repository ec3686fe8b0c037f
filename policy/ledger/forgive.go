package ledger

import (
	"context"
	"fmt"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/losses"
)

type (
	// Forgiveness records that, when and why the operator forgave a loss.
	Forgiveness = losses.Forgiveness
	// Loss is a payment that never arrived.
	Loss = losses.Loss
	// ForgiveResult is the result of Forgive.
	ForgiveResult = losses.ForgiveResult
)

// ErrNoLoss says that a wallet has no such loss.
var ErrNoLoss = losses.ErrNone

// ForgiveRequest selects the losses of a wallet that are forgiven, and gives the reason.
type ForgiveRequest struct {
	Refs     []string          // of the losses' payments; nil: all losses so far
	Requests map[string]string // ids of the requests of the wallet's failed payments, by the payments' references: their cost is owed
	Via      string            // the operator's interface: socket or http
	Reason   string
}

// Forgive forgives losses of a wallet: its debt is reduced by the part that is owed for them, and without a debt it is unblocked, at each gateway with its next
// request. A loss that was forgiven before does not change. The error is ErrUnknownKey, ErrNoLoss, with nothing changed, ErrClosed, or the store's.
func (l *Ledger) Forgive(ctx context.Context, acct policy.Account, which ForgiveRequest) (f ForgiveResult, err error) {
	if err := ctx.Err(); err != nil {
		return ForgiveResult{}, err
	}
	err = l.do(func(b *book) error {
		row, err := b.prepaidBalance(acct)
		if err != nil {
			return err
		}
		w := losses.Wallet{Row: row.account, Owed: row.owed, KeyPrefix: LossKey(acct, ""), CostKeys: map[string][2]string{}}
		for ref, request := range which.Requests {
			w.CostKeys[ref] = [2]string{DepositKey(acct, ref), ChargeKey(request)}
		}
		f, err = losses.Forgive(b.Book, &w, which.Refs, Forgiveness{At: b.now().UTC(), Via: which.Via, Reason: which.Reason})
		return err
	}, nil)
	if err != nil {
		return ForgiveResult{}, fmt.Errorf("losses of %s: %w", acct, err)
	}
	return f, nil
}

// ForgivenLosses returns how losses were forgiven, by their idempotency keys (LossKey). Losses that were not forgiven are missing in the result.
func (l *Ledger) ForgivenLosses(ctx context.Context, keys []string) (found map[string]Forgiveness, err error) {
	defer asUnavailable(&err)
	if found, err = losses.ForgivenLosses(ctx, l.reads, keys); err != nil {
		return nil, fmt.Errorf("losses that were forgiven: %w", err)
	}
	return found, nil
}
