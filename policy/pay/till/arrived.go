package till

import (
	"cmp"
	"context"
	"errors"
	"time"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// A released payment may be moved nevertheless, by anybody who has seen its signature: its payer, or the facilitator that verified it. Its payer must not be asked
// to pay again: when the payment is sent again, it counts as settled first, and pays for that request. If it is not sent again, it becomes the payer's credit.

// movedBefore reports whether the chain refused a payment because it was moved already, although its request cost nothing. Otherwise it returns refusal, or the
// error of the check.
func (t *Till) movedBefore(ctx context.Context, p *pay.Payment, refusal error) (bool, error) {
	if r, ok := errors.AsType[*pay.Refusal](refusal); !ok || r.Reason != pay.ReasonNonceUsed || p.UpTo {
		return false, refusal
	}
	row, ok, err := t.Book.Find(ctx, t.Terms, p)
	if err != nil {
		return false, err
	}
	if !ok || row.Service != book.Released || row.Settlement != book.None || row.Authorization != p.Authorization {
		return false, refusal
	}
	if _, is, err := t.findMoved(ctx, row); err != nil || !is {
		return false, cmp.Or(err, refusal)
	}
	return true, nil
}

// findMoved finds the transaction that moved a payment whose request was not served; ok is false if there is none, or if it paid at a gateway with another store.
func (t *Till) findMoved(ctx context.Context, p book.Payment) (hash pay.Word, ok bool, err error) {
	p.Captured = p.Value
	hash, ok, err = t.find(ctx, &p)
	if err != nil || !ok {
		return hash, false, err
	}
	mark, err := t.Chain.Mark(ctx, hash)
	return hash, err == nil && (mark == (pay.Mark{}) || mark == t.Book.Mark()), err
}

// verifyWithSettler has the settler verify a reserved payment; from here on, the settler has the signature. arrived: it refused the payment, but has moved it.
// A payment that it refuses is released.
func (t *Till) verifyWithSettler(ctx context.Context, p *pay.Payment, row *book.Payment) (arrived bool, err error) {
	if t.Settler == nil {
		return false, nil
	}
	err = t.Settler.Verify(ctx, p)
	if err == nil {
		return false, nil
	}
	if used, e := t.Chain.Used(ctx, &row.Authorization); used && e == nil {
		if _, is, e := t.findMoved(ctx, *row); is && e == nil {
			return true, nil
		}
	}
	return false, errors.Join(err, t.Book.Release(context.WithoutCancel(ctx), row.ID))
}

// Transfers of released payments are looked for some time after the release, and once more when no block can have them any more.
const (
	maxLookups  = 100         // payments in one pass
	lookupRetry = time.Minute // until the next attempt, after an error
)

// lookForReleased looks for transfers of released payments. A payment that has arrived becomes its payer's credit.
func (t *Till) lookForReleased(ctx context.Context) error {
	list, err := t.Book.DueForLookup(ctx, maxLookups)
	if err != nil || len(list) == 0 {
		return err
	}
	head, err := t.Chain.Head(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for i := range list {
		p := &list[i]
		if err := t.lookForTransfer(ctx, p, head); err != nil {
			errs = append(errs, err, t.Book.ScheduleLookup(ctx, p.ID, t.Now().Add(lookupRetry)))
		}
	}
	return errors.Join(errs...)
}

func (t *Till) lookForTransfer(ctx context.Context, p *book.Payment, head pay.Block) error {
	is, err := t.Chain.Used(ctx, &p.Authorization)
	if err != nil {
		return err
	}
	var hash pay.Word
	if is {
		if hash, is, err = t.findMoved(ctx, *p); err != nil {
			return err
		}
	}
	switch {
	case is:
		return t.creditReleased(ctx, p, hash)
	case t.finallyExpired(p, head):
		return t.Book.ScheduleLookup(ctx, p.ID, time.Time{})
	}
	end := time.Unix(int64(p.ValidBefore), 0).Add(t.lag) //nolint:gosec // a time
	return t.Book.ScheduleLookup(ctx, p.ID, latest(end, t.Now().Add(recheckInterval)))
}

// movedByOther handles the payment of a request that was not served whose transfer, made by somebody else, was removed by a reorganisation. is: it is one. Nothing was
// served for it, so no transfer is made for it from here (D-56).
func (t *Till) movedByOther(ctx context.Context, p *book.Payment, head pay.Block) (is bool, err error) {
	if p.Charge > 0 {
		return false, nil
	}
	if is, err = t.Book.IsMovedByOther(ctx, p.ID); is && err == nil {
		_, err = t.resolveUnmined(ctx, p, head)
	}
	return is, err
}

// creditReleased makes a released payment that has arrived its payer's credit.
func (t *Till) creditReleased(ctx context.Context, p *book.Payment, hash pay.Word) error {
	row, ok, err := t.Book.MarkMovedByOther(ctx, p.ID, hash)
	if err != nil || !ok {
		return err
	}
	t.Log.Warn("a payment was moved whose request was not served: it is its payer's credit", "request", row.Request, "payer", row.From.String(), "amount_usd", row.Captured.String())
	return t.credit(ctx, &row)
}
