package ledger

import (
	"context"
	"fmt"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/audit"
)

// Posting is the amounts that one journal moved.
type Posting = audit.Posting

// Postings reads the journals of some idempotency keys (ChargeKey, DepositKey, LossKey), including charges that the store does not have yet.
func (l *Ledger) Postings(ctx context.Context, keys []string) (found map[string]Posting, err error) {
	defer asUnavailable(&err)
	v, err := l.view(ctx)
	if err != nil {
		return nil, fmt.Errorf("postings: %w", err)
	}
	defer v.Close()
	found, err = audit.Postings(ctx, v.Snapshot, keys)
	if err != nil {
		return nil, fmt.Errorf("postings: %w", err)
	}
	for _, e := range v.Unapplied() {
		if e.Prepaid && e.Charge.Amount > 0 {
			key := ChargeKey(e.Charge.RequestID)
			found[key] = Posting{Key: key, Account: e.Charge.Account, Amount: -e.Expected(), Revenue: e.Charge.Amount, Loss: e.Charge.Amount - e.Expected()}
		}
	}
	return found, nil
}

// DepositsOf reads up to limit journals after one, in order, of deposits whose reference begins with a prefix.
func (l *Ledger) DepositsOf(ctx context.Context, prefix string, after int64, limit int) (list []Posting, err error) {
	defer asUnavailable(&err)
	list, err = audit.Deposits(ctx, l.reads, prefix, after, limit)
	if err != nil {
		return nil, fmt.Errorf("deposits: %w", err)
	}
	return list, nil
}

// ChargeKey is the idempotency key of a request's charge.
func ChargeKey(requestID string) string { return "request:" + requestID }

// DepositKey is the idempotency key of a deposit.
func DepositKey(acct policy.Account, ref string) string { return "deposit:" + string(acct) + ":" + ref }

// LossKey is the idempotency key of taking a deposit back.
func LossKey(acct policy.Account, ref string) string { return "lost:" + string(acct) + ":" + ref }
