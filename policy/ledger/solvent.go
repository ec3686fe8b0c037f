package ledger

import (
	"context"
	"fmt"

	"bardo.money/gateway/policy"
)

// Solvent refuses a key that is blocked or has nothing at all, credit included: whatever a request of it costs, Reserve would refuse it,
// unless a deposit comes. While the key's block has something free, nothing is read. The error is an *InsufficientError that needs
// nothing, or the store's; a key without a balance is solvent.
func (l *Ledger) Solvent(ctx context.Context, acct policy.Account) error {
	if l.account(acct).hasFree() {
		return nil
	}
	row, err := scanBalance(l.reads.QueryRowContext(ctx, selectBalance, acct))
	switch {
	case err != nil:
		return fmt.Errorf("balance of key %s: %w", acct, err)
	case !row.prepaid || !row.blocked && row.micro+row.credit > 0:
		return nil
	}
	return &InsufficientError{Account: acct, Available: row.micro + row.credit, Blocked: row.blocked}
}

// hasFree tells whether a request could be reserved for out of memory.
func (a *account) hasFree() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ready && a.free > 0
}
