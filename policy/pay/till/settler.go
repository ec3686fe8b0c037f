package till

import (
	"context"
	"errors"
	"sync"

	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// Settlement by a facilitator, which makes the transfer with its own account. The order is stored before it is sent. Only the state of the authorization on the
// chain tells whether the transfer was made, not the facilitator's response; since an authorization can be used once, an order may be repeated.

// maxOrders is the maximum number of concurrent orders: a facilitator may wait for blocks.
const maxOrders = 16

// orderAll orders the transfers of payments, concurrently.
func (t *Till) orderAll(ctx context.Context, due []*book.Payment, head pay.Block) error {
	var all sync.WaitGroup
	free := make(chan struct{}, maxOrders)
	errs := make([]error, len(due))
	for i, p := range due {
		free <- struct{}{}
		all.Add(1)
		guard.Go(func() {
			defer func() { <-free; all.Done() }()
			errs[i] = t.order(ctx, p, head)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// order orders the transfer of a payment, unless the chain shows that it was made.
func (t *Till) order(ctx context.Context, p *book.Payment, head pay.Block) error {
	if t.Now().Before(p.Changed.Add(backoff(p.Attempts))) {
		return nil
	}
	if over, err := t.resolveUnmined(ctx, p, head); over || err != nil {
		return err
	}
	if err := t.Book.MarkOrdered(ctx, p.ID); err != nil {
		return err
	}
	hash, err := t.Settler.Settle(ctx, p.Transfer())
	if r, ok := errors.AsType[*pay.Refusal](err); ok {
		return t.reverted(ctx, p, head, &pay.Revert{Reason: r.Reason})
	}
	if hash == (pay.Word{}) {
		return err
	}
	return errors.Join(err, t.Book.MarkFound(ctx, p.ID, hash))
}

// checkOrder handles a payment whose transfer was ordered and is in no block.
func (t *Till) checkOrder(ctx context.Context, p *book.Payment, head pay.Block) error {
	if over, err := t.resolveUnmined(ctx, p, head); over || err != nil {
		return err
	}
	if t.Now().Sub(p.Changed) < t.Bump {
		return nil
	}
	return t.Book.MarkRefused(ctx, p.ID, "the facilitator has not settled it")
}
