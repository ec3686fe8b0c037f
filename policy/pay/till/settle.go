package till

import (
	"context"
	"errors"
	"time"

	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// Run settles payments until the context ends. Of the gateways that share a book, one settles: the others wait until it ends.
func (t *Till) Run(ctx context.Context) {
	tick := time.NewTicker(t.Poll)
	defer tick.Stop()
	defer t.yield(ctx)
	for {
		if err := t.pass(ctx); err != nil && ctx.Err() == nil {
			t.Log.Warn("payments are not settled at the moment; they will be", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-t.wake:
		}
	}
}

// yield lets another gateway settle.
func (t *Till) yield(ctx context.Context) {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := t.Book.Yield(ctx); err != nil {
		t.Log.Warn("other gateways settle payments only after a while", "error", err)
	}
}

// passTimeout is the timeout of one pass over the payments.
const passTimeout = time.Minute

// pass books what this gateway left unbooked and, if this gateway settles, takes every open payment one step further. An error of one payment does not affect
// the others.
func (t *Till) pass(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	settles, err := t.Book.Claim(ctx)
	if err != nil {
		return err
	}
	if err := t.updateLosses(ctx); err != nil {
		return err
	}
	errs := []error{t.adopt(ctx, settles)}
	_ = t.Chain.Check(ctx) // it is repeated until it succeeds, since then upto is offered; other calls of the chain return its error
	if !settles {
		return errors.Join(errs...)
	}
	errs = append(errs, t.takeBackFailed(ctx), t.lookForReleased(ctx))
	due, err := t.Book.Due(ctx)
	if len(due) == 0 || err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, t.settle(ctx, due))...)
}

// settle takes payments that are not final one step further.
func (t *Till) settle(ctx context.Context, due []book.Payment) error {
	head, err := t.Chain.Head(ctx)
	if err != nil {
		return err
	}
	recheck := t.Now().Sub(t.rechecked) >= recheckInterval
	if recheck {
		t.rechecked = t.Now()
	}
	var errs []error
	var orders []*book.Payment
	for i := range due {
		p := &due[i]
		if p.Settlement == book.Confirmed && !recheck {
			continue
		}
		if p.Settlement == book.None {
			moved, err := t.movedByOther(ctx, p, head)
			if moved || err != nil {
				errs = append(errs, err)
				continue
			}
			if t.Settler != nil {
				orders = append(orders, p)
				continue
			}
		}
		errs = append(errs, t.step(ctx, p, head))
	}
	if t.Settler != nil {
		return errors.Join(append(errs, t.orderAll(ctx, orders, head))...)
	}
	return errors.Join(append(errs, t.checkGas(ctx))...)
}

// recheckInterval is the interval of checks of transfers that are in a block.
const recheckInterval = 2 * time.Second

func (t *Till) step(ctx context.Context, p *book.Payment, head pay.Block) error {
	switch p.Settlement {
	case book.None:
		return t.begin(ctx, p, head)
	case book.Settling:
		return t.checkReceipts(ctx, p, head)
	case book.Confirmed:
		return t.recheck(ctx, p, head)
	case book.Final, book.Failed:
	}
	return nil
}

// adopt books what this gateway has served and not booked, and releases what it holds for no request. With others, it takes over the payments of gateways that
// no longer run: those of served requests are booked, the others released.
func (t *Till) adopt(ctx context.Context, others bool) error {
	left, err := t.Book.Adopt(ctx, others, func(request string) bool { _, ok := t.requests.Load(request); return ok })
	errs := []error{err}
	for i := range left {
		p := &left[i]
		if t.unbooked.get(p.ID) {
			continue
		}
		if p.Service == book.Serving {
			errs = append(errs, t.Book.Release(ctx, p.ID))
			continue
		}
		if p.Charge == 0 { // it was settled first, and nothing was served for it
			errs = append(errs, t.credit(ctx, p))
			continue
		}
		_, err := t.bookCharge(ctx, p, nil, ledger.Charge{RequestID: p.Request, Account: pay.Account(p.From), Amount: p.Charge, Status: statusRecovered})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// statusRecovered is the status of a request whose record was lost when its gateway ended.
const statusRecovered = "recovered"

// begin signs, stores and sends the transfer of a payment: a signed transaction is stored before it is sent, so that it is never lost.
func (t *Till) begin(ctx context.Context, p *book.Payment, head pay.Block) error {
	if expired(p, head) {
		_, err := t.resolveUnmined(ctx, p, head)
		return err
	}
	if pause := max(backoff(p.Attempts), failedTxBackoff(t.failedTxs.get(p.ID))); t.Now().Before(p.Changed.Add(pause)) {
		return nil
	}
	slot, err := t.freeSlot(ctx)
	if err != nil {
		return err
	}
	tx, err := t.prepare(ctx, p, slot)
	if r, ok := errors.AsType[*pay.Revert](err); ok {
		return t.reverted(ctx, p, head, r)
	}
	if err != nil {
		return err
	}
	return t.send(ctx, p, tx)
}

// backoff is the pause after some failed attempts to send a transfer.
func backoff(attempts int) time.Duration {
	const first, limit = 250 * time.Millisecond, 15 * time.Second
	if attempts == 0 {
		return 0
	}
	return min(first<<min(attempts, 8), limit)
}

// failedTxBackoff is the pause after some transactions of a transfer that were mined and moved nothing: each has cost gas, and a payer's contract may fail only in
// blocks, not in simulations.
func failedTxBackoff(transactions int) time.Duration {
	const maxDoublings = 6 // about an hour
	if transactions == 0 {
		return 0
	}
	return time.Minute << min(transactions-1, maxDoublings)
}

// freeSlot returns the settling account's lowest transaction nonce that no mined or pending transaction has.
func (t *Till) freeSlot(ctx context.Context) (uint64, error) {
	slot, err := t.Chain.Slot(ctx)
	if err != nil {
		return 0, err
	}
	taken, err := t.Book.Slots(ctx, slot)
	for taken[slot] {
		slot++
	}
	return slot, err
}

// prepare signs a transfer, with higher fees than earlier transactions in its slot.
func (t *Till) prepare(ctx context.Context, p *book.Payment, slot uint64) (*pay.Transaction, error) {
	before, err := t.Book.FeesAt(ctx, slot)
	if err != nil {
		return nil, err
	}
	to := p.Transfer()
	to.Mark = t.Book.Mark()
	return t.Chain.Prepare(ctx, to, slot, before.Raised())
}

func (t *Till) send(ctx context.Context, p *book.Payment, tx *pay.Transaction) error {
	if err := t.Book.MarkSigned(ctx, p.ID, tx); err != nil {
		return err
	}
	t.resent[p.ID] = t.Now()
	return t.Chain.Send(ctx, tx.Raw)
}

// reverted handles a transfer that would fail, or failed: somebody else has sent it, or the authorization has expired, or it is retried later.
func (t *Till) reverted(ctx context.Context, p *book.Payment, head pay.Block, r *pay.Revert) error {
	if over, err := t.resolveUnmined(ctx, p, head); over || err != nil {
		return err
	}
	return t.Book.MarkRefused(ctx, p.ID, r.Reason)
}

// resolveUnmined checks a payment whose transfer is in no known block. over: nothing is to be sent for it any more, since its authorization was used or has
// expired. It fails as expired only when no node can show an earlier time than the expiry.
func (t *Till) resolveUnmined(ctx context.Context, p *book.Payment, head pay.Block) (over bool, err error) {
	switch over, err := t.resolveUsed(ctx, p); {
	case over || err != nil:
		return over, err
	case t.finallyExpired(p, head):
		reason := "the authorization has expired"
		if p.Reason != "" {
			reason += ": " + p.Reason
		}
		return true, t.fail(ctx, p, reason)
	}
	return expired(p, head), nil
}

// resolveUsed checks whether the authorization was used, by any transaction, or cancelled; over: it was.
func (t *Till) resolveUsed(ctx context.Context, p *book.Payment) (over bool, err error) {
	is, err := t.Chain.Used(ctx, &p.Authorization)
	if !is || err != nil {
		return false, err
	}
	hash, ok, err := t.find(ctx, p)
	switch {
	case err != nil:
		return true, err
	case !ok:
		return true, t.resolveMissing(ctx, p)
	}
	t.missingSince.remove(p.ID)
	mark, err := t.Chain.Mark(ctx, hash)
	if err != nil {
		return true, err
	}
	if mark != (pay.Mark{}) && mark != t.Book.Mark() {
		return true, t.fail(ctx, p, "it paid for a request at another gateway, which has no store in common with this one")
	}
	return true, t.Book.MarkFound(ctx, p.ID, hash)
}

// find finds the transfer of a payment, of any sender. After a reorganisation its block may be lower than the newest one at the time of the verification.
func (t *Till) find(ctx context.Context, p *book.Payment) (hash pay.Word, ok bool, err error) {
	return t.Chain.FindTransfer(ctx, p.Transfer(), p.FromBlock-min(p.FromBlock, t.Finality))
}

// maxLag is the maximum lag of a node behind another one: one address may be served by several nodes, of which one answers for the newest block or the state, and
// another one for the transfer. A used authorization without a transfer counts as cancelled only after this time, and an authorization as expired only this long
// after its expiry.
const maxLag = 20 * time.Second

// resolveMissing handles a payment whose authorization is used, and whose transfer is not found.
func (t *Till) resolveMissing(ctx context.Context, p *book.Payment) error {
	now := t.Now()
	since := t.missingSince.update(p.ID, func(since time.Time) time.Time {
		if since.IsZero() {
			return now
		}
		return since
	})
	if now.Sub(since) < t.lag {
		return t.Book.MarkRefused(ctx, p.ID, "the authorization was used or cancelled, and no transfer is found yet")
	}
	t.missingSince.remove(p.ID)
	return t.fail(ctx, p, "the payer cancelled the authorization")
}

// expired reports whether no new block can have a payment's transfer.
func expired(p *book.Payment, head pay.Block) bool {
	return head.Time.Unix() >= int64(p.ValidBefore) //nolint:gosec // a time
}

// finallyExpired reports whether even a lagging node has all blocks that can have a payment's transfer.
func (t *Till) finallyExpired(p *book.Payment, head pay.Block) bool {
	head.Time = head.Time.Add(-t.lag)
	return expired(p, head)
}

// checkReceipts looks for the receipt of a payment's transactions.
func (t *Till) checkReceipts(ctx context.Context, p *book.Payment, head pay.Block) error {
	sent, err := t.Book.SentFor(ctx, p.ID)
	if err != nil {
		return err
	}
	var hashes []pay.Word
	if p.Tx != (pay.Word{}) {
		hashes = append(hashes, p.Tx)
	}
	for i := range sent {
		if sent[i].Hash != p.Tx {
			hashes = append(hashes, sent[i].Hash)
		}
	}
	for _, hash := range hashes {
		r, ok, err := t.Chain.Receipt(ctx, hash, p.Transfer())
		if err != nil {
			return err
		}
		if ok {
			return t.mined(ctx, p, hash, r, head)
		}
	}
	return t.unmined(ctx, p, sent, head)
}

// mined stores the outcome of a transaction that is in a block.
func (t *Till) mined(ctx context.Context, p *book.Payment, hash pay.Word, r pay.Receipt, head pay.Block) error {
	if head.Number+1 < r.Block+t.Confirmations {
		return nil
	}
	delete(t.resent, p.ID)
	if r.Paid {
		t.failedTxs.remove(p.ID)
		return t.Book.MarkConfirmed(ctx, p.ID, hash, r)
	}
	t.failedTxs.update(p.ID, func(n int) int { return n + 1 })
	return t.reverted(ctx, p, head, &pay.Revert{Reason: "the transaction was mined and moved nothing"})
}

// unmined handles a payment whose transactions are in no block.
func (t *Till) unmined(ctx context.Context, p *book.Payment, sent []book.Sent, head pay.Block) error {
	if moved, err := t.movedByOther(ctx, p, head); moved || err != nil {
		return err
	}
	if t.Settler != nil {
		return t.checkOrder(ctx, p, head)
	}
	slot, err := t.Chain.Slot(ctx)
	if err != nil {
		return err
	}
	if len(sent) == 0 || sent[0].Slot < slot || expired(p, head) { // none of its transactions can be mined any more
		if over, err := t.resolveUnmined(ctx, p, head); over || err != nil {
			return err
		}
		return t.Book.MarkRefused(ctx, p.ID, "its transaction was replaced")
	}
	if t.Now().Sub(sent[0].At) >= t.Bump {
		return t.replace(ctx, p, &sent[0], head)
	}
	if t.Now().Sub(t.resent[p.ID]) < resendInterval {
		return nil
	}
	t.resent[p.ID] = t.Now()
	return t.Chain.Send(ctx, sent[0].Raw)
}

// resendInterval is the time after which a transaction that is in no block is sent to the node again, which may have dropped it.
const resendInterval = 5 * time.Second

// replace sends the transfer with higher fees in the same slot, so that at most one of its transactions is mined.
func (t *Till) replace(ctx context.Context, p *book.Payment, old *book.Sent, head pay.Block) error {
	tx, err := t.prepare(ctx, p, old.Slot)
	if r, ok := errors.AsType[*pay.Revert](err); ok {
		return t.reverted(ctx, p, head, r)
	}
	if err != nil {
		return err
	}
	return t.send(ctx, p, tx)
}

// recheck verifies that the block of a confirmed payment is still in the chain, until the payment is final.
func (t *Till) recheck(ctx context.Context, p *book.Payment, head pay.Block) error {
	r, ok, err := t.Chain.Receipt(ctx, p.Tx, p.Transfer())
	switch {
	case err != nil:
		return err
	case !ok || !r.Paid:
		t.Log.Warn("a payment's block is not in the chain any more", "request", p.Request, "transaction", p.Tx.String())
		return t.Book.MarkUnconfirmed(ctx, p.ID)
	case r.BlockHash != p.BlockHash:
		return t.Book.MarkConfirmed(ctx, p.ID, p.Tx, r)
	case head.Number+1 >= r.Block+t.Finality:
		return t.Book.MarkFinished(ctx, p.ID)
	}
	return nil
}

// fail marks a payment as failed: its money can no longer arrive.
func (t *Till) fail(ctx context.Context, p *book.Payment, reason string) error {
	t.failedTxs.remove(p.ID)
	return t.Book.MarkFailed(ctx, p.ID, reason)
}

// blockReturnTime is the time within which gateways return money of an account from their blocks that no request needs.
const blockReturnTime = 3 * time.Second

// takeBackFailed removes the credit of failed payments from the ledger.
func (t *Till) takeBackFailed(ctx context.Context) error {
	list, err := t.Book.FailedNotTakenBack(ctx)
	errs := []error{err}
	for i := range list {
		p := &list[i]
		if !p.Booked || t.Now().Sub(p.Changed) < blockReturnTime {
			continue // adopt books it first
		}
		loss, err := t.Ledger.TakeBack(ctx, pay.Account(p.From), p.Captured, p.Reference())
		if err == nil {
			err = t.Book.MarkLost(ctx, p.ID)
		}
		if errs = append(errs, err); err == nil && (p.Charge > 0 || loss > 0) { // else nothing was served for it
			t.Log.Error("a payment could not be settled", "request", p.Request, "payer", p.From.String(), "amount_usd", p.Captured.String(), "reason", p.Reason)
			t.Lost(Loss{Account: pay.Account(p.From), Payer: p.From.String(), Request: p.Request, Amount: p.Captured, Loss: loss, Reason: p.Reason})
		}
	}
	return errors.Join(errs...)
}

// checkGas logs a warning and calls LowGas while the settling account can pay for few transfers only.
func (t *Till) checkGas(ctx context.Context) error {
	if t.Now().Sub(t.gasChecked) < time.Minute {
		return nil
	}
	left, err := t.Chain.Affords(ctx)
	if err != nil {
		return err
	}
	t.gasChecked = t.Now()
	if left < t.LowGasTransfers {
		t.Log.Warn("the account that settles payments is short of the chain's own coin", "transfers_left", left)
		t.LowGas(left)
	}
	return nil
}
