package till

import (
	"context"
	"errors"
	"sync"

	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// Settlement by a facilitator: it makes the transfer, with an account of its own. The order is stored before it is sent. Whether it was carried out, the chain decides, by
// the state of the authorization, whatever the facilitator says or does not say; the same authorization can be used once, so an order may be repeated.

// orders is how many payments are handed over at the same time: a facilitator may wait for blocks.
const orders = 16

// handAll hands payments over.
func (t *Till) handAll(ctx context.Context, due []*book.Payment, head pay.Block) error {
	var all sync.WaitGroup
	free := make(chan struct{}, orders)
	errs := make([]error, len(due))
	for i, p := range due {
		free <- struct{}{}
		all.Add(1)
		guard.Go(func() {
			defer func() { <-free; all.Done() }()
			errs[i] = t.hand(ctx, p, head)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// hand has a payment settled, unless the chain says that it was.
func (t *Till) hand(ctx context.Context, p *book.Payment, head pay.Block) error {
	if t.Now().Before(p.Changed.Add(backoff(p.Attempts))) {
		return nil
	}
	if over, err := t.late(ctx, p, head); over || err != nil {
		return err
	}
	if err := t.Book.Ordered(ctx, p.ID); err != nil {
		return err
	}
	hash, err := t.Settler.Settle(ctx, p.Transfer())
	if r, ok := errors.AsType[*pay.Refusal](err); ok {
		return t.reverted(ctx, p, head, &pay.Revert{Reason: r.Reason})
	}
	if hash == (pay.Word{}) {
		return err
	}
	return errors.Join(err, t.Book.Found(ctx, p.ID, hash))
}

// ordered decides what becomes of a payment that was handed over and is in no block.
func (t *Till) ordered(ctx context.Context, p *book.Payment, head pay.Block) error {
	if over, err := t.late(ctx, p, head); over || err != nil {
		return err
	}
	if t.Now().Sub(p.Changed) < t.Bump {
		return nil
	}
	return t.Book.Refused(ctx, p.ID, "the facilitator has not settled it")
}
