package till

import (
	"cmp"
	"context"
	"errors"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// A payment that was released may be moved all the same, by anybody who has seen it: its payer, or the facilitator that verified it. Its payer must not be told to pay again: it is settled first
// when it is sent again, which it is already, and becomes the wallet's credit like that.

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
	row.Captured = row.Value
	hash, ok, err := t.Chain.FindTransfer(ctx, row.Transfer(), row.FromBlock)
	if err != nil || !ok {
		return false, cmp.Or(err, refusal)
	}
	mark, err := t.Chain.Mark(ctx, hash)
	if err != nil || mark != (pay.Mark{}) && mark != t.Book.Mark() {
		return false, cmp.Or(err, refusal)
	}
	return true, nil
}
