package ledger

import (
	"context"
	"fmt"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/usage"
)

// Solvent returns an error for a key that is blocked or has no money, including credit, so that Reserve would refuse any amount. While the key's
// block has free money, the store is not read. The error is an *InsufficientError with Needed 0, or the store's. A key without a balance is
// solvent.
func (l *Ledger) Solvent(ctx context.Context, acct policy.Account) (err error) {
	defer asUnavailable(&err)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if l.account(acct).hasFree() {
		return nil
	}
	v := &usage.View{Own: l.pending.all()}
	err = v.Open(ctx, l.reads)
	if err != nil {
		return fmt.Errorf("balance of key %s: %w", acct, err)
	}
	defer v.Close()
	row, err := scanBalance(v.QueryRowContext(ctx, selectBalance, acct))
	row = row.less(acct, v.Own)
	switch {
	case err != nil:
		return fmt.Errorf("balance of key %s: %w", acct, err)
	case !row.prepaid || !row.blocked && row.micro+row.credit > 0:
		return nil
	}
	return &InsufficientError{Account: acct, Available: row.micro + row.credit, Blocked: row.blocked}
}

// hasFree reports whether the block has free money in memory.
func (a *account) hasFree() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ready && a.free > 0
}
