package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"bardo.money/gateway/policy"
)

// Accounts of wallets that pay for single requests. A wallet's account is a prepaid key whose hash matches no secret. Its balance is the part of its payments
// that exceeds the costs of their requests.

// CreditWallet adds a payment, less the operator's fee, to a wallet's account, which it creates if there is none, and collects the wallet's debt for payments that
// never arrived. A reference is applied once per account, as with Deposit.
func (l *Ledger) CreditWallet(ctx context.Context, acct policy.Account, amount, fee policy.Micro, ref string) error {
	return l.creditWallet(ctx, acct, &walletCredit{amount: amount, fee: fee, ref: ref})
}

// CreditServed is CreditWallet for a payment whose request was served and is charged next. The same transaction makes a standing hold of the request's cost, as
// far as the payment and the hold h cover it, until any gateway charges the request, so that the money is not used for, or taken back by, anything else. The
// caller must capture the returned hold; it is h unless that is nil.
func (l *Ledger) CreditServed(ctx context.Context, acct policy.Account, amount, fee policy.Micro, ref string, c *Charge, h *Hold) (*Hold, error) {
	own := h == nil
	if own {
		h = &Hold{account: l.account(acct), request: c.RequestID}
		h.account.mu.Lock()
		h.account.openHolds++
		h.account.mu.Unlock()
	}
	h.captures.Lock()
	defer h.captures.Unlock()
	h.beginCapture(l.o.Now())
	w := &walletCredit{amount: amount, fee: fee, ref: ref, request: c.RequestID, cost: c.Amount, fromHold: min(h.Amount(), c.Amount)}
	err := l.creditWallet(ctx, acct, w)
	h.setStanding(w, err)
	if err != nil {
		if own {
			l.Release(h)
		}
		return nil, err
	}
	return h, nil
}

// setStanding sets the standing hold that belongs to a hold, unless the credit failed.
func (h *Hold) setStanding(w *walletCredit, err error) {
	a := h.account
	a.mu.Lock()
	defer a.mu.Unlock()
	h.capturing--
	if err == nil {
		a.held -= w.taken
		h.amount -= w.taken
		h.standing = w.standing
	}
	h.freeIfReleased()
}

// walletCredit is a payment, and the part of it that is set aside for its request.
type walletCredit struct {
	amount, fee policy.Micro
	ref         string

	request  string       // "": nothing is set aside
	cost     policy.Micro // of the request
	fromHold policy.Micro // the part of it that a hold in this gateway's block pays

	taken    policy.Micro // from the hold, out of the block
	standing policy.Micro // the amount that is set aside
}

// ownerPayments is the owner of standing holds for paid requests. Only the charge releases them.
const ownerPayments = "payments"

func (l *Ledger) creditWallet(ctx context.Context, acct policy.Account, w *walletCredit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var stored policy.Micro
	err := l.do(func(b *book) (err error) {
		stored, err = b.creditWallet(acct, w)
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

func (b *book) creditWallet(acct policy.Account, w *walletCredit) (policy.Micro, error) {
	w.taken, w.standing = 0, 0 // it may be applied again
	row, err := b.prepaidBalance(acct)
	if errors.Is(err, ErrUnknownKey) {
		k := KeyRow{ID: acct, Name: string(acct), Prepaid: true, CreatedAt: b.now()}
		if err := b.createKey(k, 0); err != nil {
			return 0, err
		}
		row, err = b.prepaidBalance(acct)
	}
	if err != nil {
		return 0, err
	}
	if w.amount <= 0 || w.amount > maxAmount || w.fee < 0 || w.fee > w.amount {
		return 0, fmt.Errorf("%w: %s USD, fee %s USD", ErrAmount, w.amount, w.fee)
	}
	net := w.amount - w.fee
	_, err = b.addJournal("deposit", DepositKey(acct, w.ref), w.ref, b.now(), []entry{{row.account, net}, {accountRevenue, w.fee}, {accountDeposits, -w.amount}})
	if errors.Is(err, ErrReused) {
		w.standing, err = b.standing(w.request, row.account)
		return row.micro, err
	}
	if err != nil {
		return 0, err
	}
	brought, err := b.setAside(row.account, net, w)
	if err != nil {
		return 0, err
	}
	return b.credit(row.account, net, brought)
}

// setAside creates a standing hold of a request's cost, from the hold in the gateway's block and, for the rest, from the payment. brought is the payment's part.
func (b *book) setAside(account int64, net policy.Micro, w *walletCredit) (brought policy.Micro, err error) {
	if w.fromHold > 0 {
		n, err := b.Exec(`UPDATE block SET micro = micro - ?1 WHERE account = ?2 AND instance = ?3 AND micro >= ?1`, w.fromHold, account, b.Instance)
		if err != nil {
			return 0, err
		}
		if n == 1 { // else others considered this gateway dead and returned the block
			w.taken = w.fromHold
		}
	}
	brought = min(w.cost-w.taken, net)
	if w.standing = w.taken + brought; w.standing == 0 {
		return 0, nil
	}
	_, err = b.Exec(`INSERT INTO standing (request, account, owner, micro, at) VALUES (?, ?, ?, ?, ?)`, w.request, account, ownerPayments, w.standing, b.now().UnixMicro())
	return brought, err
}

// standing is the amount of the standing hold of a paid request.
func (b *book) standing(request string, account int64) (amount policy.Micro, err error) {
	err = b.Row(`SELECT micro FROM standing WHERE request = ? AND account = ? AND owner = ?`, request, account, ownerPayments).Scan(&amount)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return amount, err
}

// TakeBack takes the credit of a payment that never arrived out of a wallet's account, as far as its balance has it. The rest, and the fee, is a loss of the
// operator, which the wallet owes, and the account is blocked until it is paid. Without a loss the account is not blocked. A reference is applied once per account.
func (l *Ledger) TakeBack(ctx context.Context, acct policy.Account, amount policy.Micro, ref string) (loss policy.Micro, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var stored policy.Micro
	err = l.do(func(b *book) (err error) {
		stored, loss, err = b.takeBack(acct, amount, ref)
		return err
	}, func(err error) {
		if a := l.inMemory(acct); a != nil && err == nil {
			a.setStored(stored)
			a.suspend()
		}
	})
	if err != nil {
		return 0, fmt.Errorf("payment of %s taken back: %w", acct, err)
	}
	return loss, nil
}

func (b *book) takeBack(acct policy.Account, amount policy.Micro, ref string) (stored, loss policy.Micro, err error) {
	row, err := b.prepaidBalance(acct)
	if err != nil {
		return 0, 0, err
	}
	taken := max(0, min(amount, row.micro-row.held))
	loss = amount - taken
	_, err = b.addJournal("deposit", LossKey(acct, ref), ref, b.now(), []entry{{row.account, -taken}, {accountLoss, -loss}, {accountDeposits, amount}})
	if errors.Is(err, ErrReused) {
		return row.micro, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	_, err = b.Exec(`UPDATE balance SET micro = micro - ?1, owed = owed + ?2, blocked = CASE WHEN ?2 > 0 THEN 1 ELSE blocked END WHERE account = ?3`, taken, loss, row.account)
	return row.micro - taken, loss, err
}
