package ledger

import (
	"context"
	"errors"
	"fmt"

	"bardo.money/gateway/policy"
)

// Accounts of wallets that pay for single requests. A wallet's account is a prepaid key whose hash matches no secret: what its payments bring beyond
// their requests' costs is its balance.

// CreditWallet adds what a payment brought to a wallet's account, which it creates if there is none. fee of it goes to the operator. A reference is applied
// once per account, as with Deposit.
func (l *Ledger) CreditWallet(ctx context.Context, acct policy.Account, amount, fee policy.Micro, ref string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var stored policy.Micro
	err := l.writer.do(func(b *book) (err error) {
		stored, err = b.creditWallet(acct, amount, fee, ref, l)
		return err
	}, func(err error) {
		if a := l.inMemory(acct); a != nil && err == nil {
			a.setStored(stored)
		}
	})
	if err != nil {
		return fmt.Errorf("credit of %s: %w", acct, err)
	}
	return nil
}

func (b *book) creditWallet(acct policy.Account, amount, fee policy.Micro, ref string, l *Ledger) (policy.Micro, error) {
	row, err := b.prepaidBalance(acct)
	if errors.Is(err, ErrUnknownKey) {
		k := KeyRow{ID: acct, Name: string(acct), Prepaid: true, CreatedAt: l.o.Now()}
		if err := b.createKey(k, 0); err != nil {
			return 0, err
		}
		row, err = b.prepaidBalance(acct)
	}
	if err != nil {
		return 0, err
	}
	if amount <= 0 || amount > maxAmount || fee < 0 || fee > amount {
		return 0, fmt.Errorf("%w: %s USD, fee %s USD", ErrAmount, amount, fee)
	}
	idem, net := DepositKey(acct, ref), amount-fee
	_, err = b.addJournal("deposit", idem, ref, l.o.Now(), []entry{{row.account, net}, {accountRevenue, fee}, {accountDeposits, -amount}})
	if errors.Is(err, ErrReused) {
		return row.micro, nil
	}
	if err != nil {
		return 0, err
	}
	_, err = b.Exec(`UPDATE balance SET micro = micro + ?, blocked = 0 WHERE account = ?`, net, row.account)
	return row.micro + net, err
}

// TakeBack takes the credit of a payment that never arrived out of a wallet's account, as far as it is there. The rest, and the fee, is a loss of the
// operator, and the account is blocked then. A reference is applied once per account.
func (l *Ledger) TakeBack(ctx context.Context, acct policy.Account, amount policy.Micro, ref string) (loss policy.Micro, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var stored policy.Micro
	err = l.writer.do(func(b *book) (err error) {
		stored, loss, err = b.takeBack(acct, amount, ref, l)
		return err
	}, func(err error) {
		if a := l.inMemory(acct); a != nil && err == nil {
			a.setStored(stored)
		}
	})
	if err != nil {
		return 0, fmt.Errorf("payment of %s taken back: %w", acct, err)
	}
	return loss, nil
}

func (b *book) takeBack(acct policy.Account, amount policy.Micro, ref string, l *Ledger) (stored, loss policy.Micro, err error) {
	row, err := b.prepaidBalance(acct)
	if err != nil {
		return 0, 0, err
	}
	taken := max(0, min(amount, row.micro-row.held))
	loss = amount - taken
	_, err = b.addJournal("deposit", LossKey(acct, ref), ref, l.o.Now(), []entry{{row.account, -taken}, {accountLoss, -loss}, {accountDeposits, amount}})
	if errors.Is(err, ErrReused) {
		return row.micro, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	_, err = b.Exec(`UPDATE balance SET micro = micro - ?, blocked = 1 WHERE account = ?`, taken, row.account)
	return row.micro - taken, loss, err
}
