package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"bardo.money/gateway/policy"
)

// A payment that never arrived is taken back, as far as its wallet's balance has it and no gateway holds it. The rest is owed, and the account is blocked until
// it is paid: each transaction that makes money available, by a credit or by the return of a part of a block, takes it. So an account that owes has
// no money that is not held.

// Owed is an account's debt for payments that never arrived; zero if there is no such account.
func (l *Ledger) Owed(ctx context.Context, acct policy.Account) (owed policy.Micro, err error) {
	defer asUnavailable(&err)
	err = l.reads.QueryRowContext(ctx, `SELECT b.owed FROM account a JOIN balance b ON b.account = a.id WHERE a.name = ?`, acct).Scan(&owed)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("owed by %s: %w", acct, err)
	}
	return owed, nil
}

// credit adds an amount to a balance, of which held is held, collects the account's debt, and unblocks the account if none is left.
func (b *book) credit(account int64, amount, held policy.Micro) (left policy.Micro, err error) {
	if _, err := b.Exec(`UPDATE balance SET micro = micro + ?, held = held + ? WHERE account = ?`, amount, held, account); err != nil {
		return 0, err
	}
	if err := b.recover(account); err != nil {
		return 0, err
	}
	err = b.Row(`UPDATE balance SET blocked = CASE WHEN owed > 0 THEN 1 ELSE 0 END WHERE account = ? RETURNING micro`, account).Scan(&left)
	return left, err
}

// releaseHeld makes money available that a block or a standing hold had, and collects the account's debt from it.
func (b *book) releaseHeld(account int64, amount policy.Micro) error {
	if _, err := b.Exec(`UPDATE balance SET held = held - ? WHERE account = ?`, amount, account); err != nil {
		return err
	}
	return b.recover(account)
}

// recover collects an account's debt from the money that is not held, and unblocks the account if none is left.
func (b *book) recover(account int64) error {
	var name policy.Account
	var free, owed policy.Micro
	var last int64
	err := b.Row(`SELECT a.name, b.micro - b.held, b.owed, (SELECT coalesce(max(id), 0) FROM journal)
FROM balance b JOIN account a ON a.id = b.account WHERE b.account = ? AND b.owed > 0`, account).Scan(&name, &free, &owed, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	taken := min(free, owed)
	if err != nil || taken <= 0 {
		return err
	}
	if _, err := b.addJournal("deposit", recoveryKey(name, last+1), "recovered", b.now(), []entry{{account, -taken}, {accountLoss, taken}}); err != nil {
		return err
	}
	_, err = b.Exec(`UPDATE balance SET micro = micro - ?1, owed = owed - ?1, blocked = CASE WHEN owed > ?1 THEN 1 ELSE 0 END WHERE account = ?2`, taken, account)
	return err
}

// recoveryKey is the idempotency key of one recovery. An account may have many.
func recoveryKey(acct policy.Account, journal int64) string {
	return "recovered:" + string(acct) + ":" + strconv.FormatInt(journal, 10)
}
