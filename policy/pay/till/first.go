package till

import (
	"context"
	"errors"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// Settlement before service, for payers with a debt or an unpaid request that was not forgiven, and for large payments. Only scheme exact can be settled before the cost
// is known. The payment is booked when its request ends: with the request's charge and the fee, or, if nothing was served, as credit without a fee.

// ErrUnsettled is the error of a payment that is settled first, and is in no block yet. When it arrives, it becomes its wallet's credit.
var ErrUnsettled = errors.New("the payment is being settled, and its request was not served")

// firstTimeout is the maximum wait of a request for the settlement of its payment.
const firstTimeout = 30 * time.Second

// reserve reserves a payment for a request; first: it must be settled before the request is served. The payer's debt does not count against the exposure limit.
func (t *Till) reserve(ctx context.Context, p *pay.Payment, requestID string, block uint64, owes debt) (row book.Payment, first bool, err error) {
	l := t.Limits
	l.Owed, l.Debt = owes.all, owes.left
	if l.Exposure > 0 {
		l.Exposure = l.Exposure.Plus(owes.left)
	}
	first = (owes.all > 0 || t.SettlesFirst(p.Value)) && !p.UpTo
	row, err = t.Book.Reserve(ctx, t.Terms, p, requestID, block, l)
	if r, ok := errors.AsType[*pay.Refusal](err); !ok || r.Reason != pay.ReasonBlocked {
		return row, first, err
	}
	forgiven, e := t.allForgiven(ctx, p.From)
	if e != nil {
		return row, first, e
	}
	if p.UpTo && !forgiven {
		return row, first, err
	}
	l.Failed = true
	row, err = t.Book.Reserve(ctx, t.Terms, p, requestID, block, l)
	return row, first || !forgiven, err
}

// allForgiven reports whether all of a payer's unpaid requests were forgiven. It checks the latest one first, which decides for limit payers.
func (t *Till) allForgiven(ctx context.Context, payer pay.Address) (bool, error) {
	for _, limit := range []int{1, 0} {
		failed, err := t.Book.Unpaid(ctx, payer, limit)
		if err != nil {
			return false, err
		}
		keys := make([]string, len(failed))
		for i := range failed {
			keys[i] = ledger.LossKey(pay.Account(payer), failed[i].Reference())
		}
		forgiven, err := t.Ledger.ForgivenLosses(ctx, keys)
		if err != nil || len(forgiven) < len(keys) {
			return false, err
		}
	}
	return true, nil
}

// SettlesFirst reports whether payments of an amount are settled before their requests are served. Scheme upto is not accepted for them.
func (t *Till) SettlesFirst(amount policy.Micro) bool {
	if t.SettleFirst > 0 && amount >= t.SettleFirst {
		return true
	}
	_, until := t.Losses()
	return !until.IsZero()
}

// settleFirst settles a payment, and returns it once it is in a block. If it arrives after an error, it becomes its payer's credit.
func (t *Till) settleFirst(ctx context.Context, p Taken) (taken Taken, err error) {
	defer func() {
		if err != nil {
			t.Ledger.Release(p.hold)
			t.unbooked.remove(p.ID)
		}
	}()
	t.unbooked.update(p.ID, func(bool) bool { return true })
	if err := t.Book.MarkSettledFirst(context.WithoutCancel(ctx), p.ID); err != nil {
		return Taken{Payment: p.Payment}, err
	}
	t.wakeUp()
	wait, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	row, err := t.Await(wait, p.ID)
	switch {
	case err != nil:
		return Taken{Payment: row}, err
	case row.Settlement == book.Failed:
		return Taken{Payment: row}, row.Refuse(pay.ReasonTransfer, "the transfer failed, and nothing was served: %s", row.Reason)
	case row.Settlement != book.Confirmed && row.Settlement != book.Final:
		return Taken{Payment: row}, ErrUnsettled
	}
	return Taken{Payment: row, Credit: p.Credit, Owed: p.Owed, hold: p.hold, first: true, fee: p.Fee}, nil
}

// credit adds a payment to its payer's account, without a charge. It may be repeated.
func (t *Till) credit(ctx context.Context, p *book.Payment) error {
	ctx = context.WithoutCancel(ctx)
	if err := t.Ledger.CreditWallet(ctx, pay.Account(p.From), p.Captured, p.Fee, p.Reference()); err != nil {
		return err
	}
	return t.Book.MarkBooked(ctx, p.ID)
}

// servedFirst books a payment that was settled first, and the cost of its request.
func (t *Till) servedFirst(ctx context.Context, p *Taken, c ledger.Charge) (ledger.Receipt, error) {
	defer t.unbooked.remove(p.ID)
	p.Charge, p.Fee = c.Amount, p.fee
	if err := t.Book.MarkCharged(ctx, p.ID, p.Charge, p.Fee); err != nil {
		return ledger.Receipt{}, err
	}
	return t.bookCharge(ctx, &p.Payment, p.hold, c)
}

// releaseFirst makes a payment that was settled first its payer's credit, since nothing was served for it. adopt retries a booking that failed.
func (t *Till) releaseFirst(ctx context.Context, p *Taken) error {
	defer t.unbooked.remove(p.ID)
	if p.Charge > 0 {
		return nil
	}
	return t.credit(ctx, &p.Payment)
}
