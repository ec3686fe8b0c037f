package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"bardo.money/gateway/policy"
)

// A payment that never arrived is taken back, as far as its wallet has it and no gateway holds it. The rest is owed: it is taken as soon as it is there,
// in the transaction in which a gateway returns a part of its block or something is credited, and the account is blocked until then. So while an account
// owes, it has nothing that is not held.

// Owed is what an account owes for payments that never arrived, nothing where there is no such account.
func (l *Ledger) Owed(ctx context.Context, acct policy.Account) (owed policy.Micro, err error) {
	defer tellAway(&err)
	err = l.reads.QueryRowContext(ctx, `SELECT b.owed FROM account a JOIN balance b ON b.account = a.id WHERE a.name = ?`, acct).Scan(&owed)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("owed by %s: %w", acct, err)
	}
	return owed, nil
}

// credit adds to a balance, a part of it held, takes what the account owes, and unblocks it if that is all.
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

// unhold makes money available that a block or a standing hold had, and takes of it what the account owes.
func (b *book) unhold(account int64, amount policy.Micro) error {
	if _, err := b.Exec(`UPDATE balance SET held = held - ? WHERE account = ?`, amount, account); err != nil {
		return err
	}
	return b.recover(account)
}

// recover takes what an account owes out of what is not held.
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
	_, err = b.Exec(`UPDATE balance SET micro = micro - ?1, owed = owed - ?1 WHERE account = ?2`, taken, account)
	return err
}

// recoveryKey is the idempotency key of what is taken from an account that owes. One account may have many.
func recoveryKey(acct policy.Account, journal int64) string {
	return "recovered:" + string(acct) + ":" + strconv.FormatInt(journal, 10)
}
