package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// Balance is a key's money.
type Balance struct {
	Prepaid   bool         // false: the key is metered, and all amounts are zero
	Amount    policy.Micro // deposits less charges; may fall to -Credit
	Held      policy.Micro // the reserved part: by open requests of this gateway and by blocks of others
	Credit    policy.Micro
	Blocked   bool // until a deposit, because a request cost more than the balance
	Available policy.Micro
	Owed      policy.Micro // for payments that never arrived: taken from the next credits
}

// Balance reads a key's balance, less charges that are not in the store yet. The error is ErrUnknownKey or the store's.
func (l *Ledger) Balance(ctx context.Context, acct policy.Account) (b Balance, err error) {
	defer asUnavailable(&err)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	b, err = l.balance(ctx, acct)
	if err != nil {
		return Balance{}, fmt.Errorf("balance of key %s: %w", acct, err)
	}
	return b, nil
}

func (l *Ledger) balance(ctx context.Context, acct policy.Account) (Balance, error) {
	v, err := l.view(ctx)
	if err != nil {
		return Balance{}, err
	}
	defer v.Close()
	row, err := scanBalance(v.QueryRowContext(ctx, selectBalance, acct))
	if err != nil || !row.prepaid {
		return Balance{}, err
	}
	row = row.less(acct, v.Unapplied())
	if l.o.Gateway { // count only the held part of the own block
		own, err := l.unpaidBlock(ctx, v, acct, row.account)
		if err != nil {
			return Balance{}, err
		}
		row.held += l.account(acct).heldNow() - own
	}
	return Balance{
		Prepaid: true, Amount: row.micro, Held: row.held, Credit: row.credit, Blocked: row.blocked,
		Available: row.available(), Owed: row.owed,
	}, nil
}

func (a *account) heldNow() policy.Micro {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

// setStored sets the store's balance, which includes exactly the charges whose ops have ended.
func (a *account) setStored(balance policy.Micro) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stored = balance
}

// Deposit adds to a prepaid key's balance, unblocks the key, and returns the balance. A reference is applied once per key: repeating it changes
// nothing, and with another amount it is ErrReused. Other errors are ErrUnknownKey, ErrMetered, ErrAmount, ErrClosed, or the store's.
func (l *Ledger) Deposit(ctx context.Context, acct policy.Account, amount policy.Micro, ref string) (policy.Micro, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var stored policy.Micro
	err := l.do(func(b *book) (err error) { stored, err = b.deposit(acct, amount, ref, l.o.Now()); return err }, func(err error) {
		if a := l.inMemory(acct); a != nil && err == nil {
			a.setStored(stored)
		}
	})
	if err != nil {
		return 0, fmt.Errorf("deposit to key %s: %w", acct, err)
	}
	b, err := l.Balance(ctx, acct)
	if err != nil { // the deposit is in the store
		return stored, nil //nolint:nilerr // as above
	}
	return b.Amount, nil
}

// Deposited is the amount deposited with a reference; zero if it was not used.
func (l *Ledger) Deposited(ctx context.Context, acct policy.Account, ref string) (amount policy.Micro, err error) {
	defer asUnavailable(&err)
	err = l.reads.QueryRowContext(ctx, `SELECT coalesce(sum(e.amount), 0)
FROM journal j JOIN entry e ON e.journal = j.id JOIN account a ON a.id = e.account
WHERE j.idem = ? AND a.name = ?`, DepositKey(acct, ref), acct).Scan(&amount)
	if err != nil {
		return 0, fmt.Errorf("deposit to key %s: %w", acct, err)
	}
	return amount, nil
}

func (b *book) deposit(acct policy.Account, amount policy.Micro, ref string, at time.Time) (policy.Micro, error) {
	if amount <= 0 || amount > maxAmount {
		return 0, fmt.Errorf("%w: %s USD", ErrAmount, amount)
	}
	row, err := b.prepaidBalance(acct)
	if err != nil {
		return 0, err
	}
	idem := DepositKey(acct, ref)
	if same, err := b.deposited(idem, row.account, amount); same || err != nil {
		return row.micro, err
	}
	if row.micro > maxBalance-amount {
		return 0, fmt.Errorf("%w: a balance is at most %s USD", ErrAmount, maxBalance)
	}
	if _, err := b.addJournal("deposit", idem, ref, at, []entry{{row.account, amount}, {accountDeposits, -amount}}); err != nil {
		return 0, err
	}
	return b.credit(row.account, amount, 0)
}

// deposited reports whether a deposit was made before. The error is ErrReused if its amount differs.
func (b *book) deposited(idem string, account int64, amount policy.Micro) (bool, error) {
	var before policy.Micro
	err := b.Row(`SELECT coalesce(sum(e.amount), 0) FROM journal j JOIN entry e ON e.journal = j.id
WHERE j.idem = ? AND e.account = ?`, idem, account).Scan(&before)
	if err != nil || before == 0 {
		return false, err
	}
	if before != amount {
		return false, fmt.Errorf("%w: it brought %s USD", ErrReused, before)
	}
	return true, nil
}

// balance is a key's row in the store.
type balance struct {
	account int64
	prepaid bool
	micro   policy.Micro
	held    policy.Micro
	credit  policy.Micro
	blocked bool
	owed    policy.Micro
	shortAt int64 // when a gateway last asked others to return unused money; zero if not recently
}

// available is the money that no block holds, including credit.
func (b balance) available() policy.Micro { return b.micro - b.held + b.credit }

const selectBalance = `SELECT a.id, k.prepaid, coalesce(b.micro, 0), coalesce(b.held, 0), coalesce(b.credit, 0), coalesce(b.blocked, 0), coalesce(b.owed, 0), coalesce(b.short_at, 0)
FROM "key" k JOIN account a ON a.name = k.id LEFT JOIN balance b ON b.account = a.id WHERE k.id = ?`

// scanBalance scans a row of selectBalance. The error is ErrUnknownKey if there is none.
func scanBalance(row store.Scanner) (b balance, err error) {
	err = row.Scan(&b.account, &b.prepaid, &b.micro, &b.held, &b.credit, &b.blocked, &b.owed, &b.shortAt)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrUnknownKey
	}
	return b, err
}

// prepaidBalance reads the balance of a key that has one.
func (b *book) prepaidBalance(acct policy.Account) (balance, error) {
	row, err := scanBalance(b.Row(selectBalance, acct))
	if err != nil {
		return balance{}, err
	}
	if !row.prepaid {
		return balance{}, ErrMetered
	}
	return row, nil
}

// less is the balance less an account's charges that the store lacks.
func (b balance) less(acct policy.Account, entries []*chargelog.Entry) balance {
	for _, e := range entries {
		if !e.Prepaid || !e.IsOf(acct) {
			continue
		}
		paid := max(0, min(e.Expected(), e.Paid+e.Standing+b.available()))
		b.micro -= paid
		b.held -= min(e.Paid+e.Standing, paid)
		b.blocked = b.blocked || paid < e.Charge.Amount
	}
	return b
}
