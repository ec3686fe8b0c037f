package till

import (
	"cmp"
	"context"
	"errors"
	"time"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// A payment that was released may be moved all the same, by anybody who has seen it: its payer, or the facilitator that verified it, whatever that said of it. Its payer must not be told to pay again: it is
// settled first when it is sent again, which it is already, and becomes the wallet's credit like that. One that is not sent again becomes that, too.

// arrived reports whether the chain refuses a payment since its money is here, though its request cost nothing. Else the error is the chain's refusal, or that of whom that was asked.
func (t *Till) arrived(ctx context.Context, p *pay.Payment, refusal error) (bool, error) {
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
	if _, is, err := t.moved(ctx, row); err != nil || !is {
		return false, cmp.Or(err, refusal)
	}
	return true, nil
}

// moved finds the transaction that moved the money of a payment whose request was not served; ok is false where there is none, and where it paid at another gateway, without a common store.
func (t *Till) moved(ctx context.Context, p book.Payment) (hash pay.Word, ok bool, err error) {
	p.Captured = p.Value
	hash, ok, err = t.find(ctx, &p)
	if err != nil || !ok {
		return hash, false, err
	}
	mark, err := t.Chain.Mark(ctx, hash)
	return hash, err == nil && (mark == (pay.Mark{}) || mark == t.Book.Mark()), err
}

// askSettler has the settler verify a payment that is reserved: it has the signature from here on. arrived: it has moved the money, and does not take the payment. One that it does not take is released.
func (t *Till) askSettler(ctx context.Context, p *pay.Payment, row *book.Payment) (arrived bool, err error) {
	if t.Settler == nil {
		return false, nil
	}
	err = t.Settler.Verify(ctx, p)
	if err == nil {
		return false, nil
	}
	if used, e := t.Chain.Used(ctx, &row.Authorization); used && e == nil {
		if _, is, e := t.moved(ctx, *row); is && e == nil {
			return true, nil
		}
	}
	return false, errors.Join(err, t.Book.Release(context.WithoutCancel(ctx), row.ID))
}

// Released payments are looked for when nobody sends them again, and once more when no block can have them any more.
const (
	looks     = 100         // at payments in one pass
	laterTime = time.Minute // until the next look, if the chain did not answer
)

// lookFor looks for the money of payments that were released. What has arrived is its payer's credit.
func (t *Till) lookFor(ctx context.Context) error {
	list, err := t.Book.ToLookFor(ctx, looks)
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
		if err := t.lookForOne(ctx, p, head); err != nil {
			errs = append(errs, err, t.Book.LookAgain(ctx, p.ID, t.Now().Add(laterTime)))
		}
	}
	return errors.Join(errs...)
}

func (t *Till) lookForOne(ctx context.Context, p *book.Payment, head pay.Block) error {
	is, err := t.Chain.Used(ctx, &p.Authorization)
	if err != nil {
		return err
	}
	var hash pay.Word
	if is {
		if hash, is, err = t.moved(ctx, *p); err != nil {
			return err
		}
	}
	switch {
	case is:
		return t.keep(ctx, p, hash)
	case t.over(p, head):
		return t.Book.LookAgain(ctx, p.ID, time.Time{})
	}
	end := time.Unix(int64(p.ValidBefore), 0).Add(t.lag) //nolint:gosec // a time
	return t.Book.LookAgain(ctx, p.ID, latest(end, t.Now().Add(recheckTime)))
}

// keep makes the money of a payment whose request was not served its payer's credit.
func (t *Till) keep(ctx context.Context, p *book.Payment, hash pay.Word) error {
	row, ok, err := t.Book.Arrived(ctx, p.ID, hash)
	if err != nil || !ok {
		return err
	}
	t.Log.Warn("a payment was moved whose request was not served: it is its payer's credit", "request", row.Request, "payer", row.From.String(), "amount_usd", row.Captured.String())
	return t.credit(ctx, &row)
}
