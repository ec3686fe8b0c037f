package book

import (
	"context"
	"fmt"
	"math/big"
	"time"

	"bardo.money/gateway/policy/pay"
)

// Sent is a signed transaction of a payment.
type Sent struct {
	pay.Transaction
	At time.Time
}

// Due returns the payments that are to be settled or not final yet, the oldest first.
func (b *Book) Due(ctx context.Context) ([]Payment, error) {
	return b.list(ctx, `settlement IN ('settling', 'confirmed') OR settlement = 'none' AND service = 'served'`)
}

// FailedNotTakenBack returns the failed payments that were not taken back in the ledger yet.
func (b *Book) FailedNotTakenBack(ctx context.Context) ([]Payment, error) {
	return b.list(ctx, `settlement = 'failed' AND lost = 0`)
}

// The following methods are for the settling gateway (Claim). Their error is ErrLost if that is another one now.

// MarkSigned stores a transaction before it is sent. The payment is settling from here on.
func (b *Book) MarkSigned(ctx context.Context, id int64, t *pay.Transaction) error {
	now := b.now().UnixMicro()
	return b.settlerTx(ctx, func(tx queries) error {
		if _, err := tx.exec(ctx, `INSERT INTO sent (hash, payment, slot, raw, tip, cap, open, at) VALUES (?, ?, ?, ?, ?, ?, 1, ?) ON CONFLICT (hash) DO NOTHING`,
			t.Hash.String(), id, int64(t.Slot), t.Raw, t.Fees.Tip.String(), t.Fees.Cap.String(), now); err != nil { //nolint:gosec // a count of transactions
			return err
		}
		_, err := tx.exec(ctx, `UPDATE payment SET settlement = 'settling', tx = ?, changed = ? WHERE id = ?`, t.Hash.String(), now, id)
		return err
	})
}

// MarkOrdered stores that a settler is asked for the transfer. The payment is settling from here on.
func (b *Book) MarkOrdered(ctx context.Context, id int64) error {
	return b.settlerUpdate(ctx, `UPDATE payment SET settlement = 'settling', tx = '', changed = ?2 WHERE id = ?1`, id, b.now().UnixMicro())
}

// MarkFound stores the transaction of somebody else that moved a payment.
func (b *Book) MarkFound(ctx context.Context, id int64, hash pay.Word) error {
	return b.settlerUpdate(ctx, `UPDATE payment SET settlement = 'settling', tx = ?2, changed = ?3 WHERE id = ?1`, id, hash.String(), b.now().UnixMicro())
}

// MarkConfirmed stores the block of a payment's transaction.
func (b *Book) MarkConfirmed(ctx context.Context, id int64, hash pay.Word, r pay.Receipt) error {
	return b.settlerUpdate(ctx, `UPDATE payment SET settlement = 'confirmed', tx = ?2, block = ?3, block_hash = ?4, reason = '', changed = ?5 WHERE id = ?1`,
		id, hash.String(), int64(r.Block), r.BlockHash.String(), b.now().UnixMicro()) //nolint:gosec // a block's number
}

// reorganised is the reason of payments whose transfer is in no block any more.
const reorganised = "the chain was reorganised"

// MarkUnconfirmed stores that the block of a payment's transaction was removed from the chain.
func (b *Book) MarkUnconfirmed(ctx context.Context, id int64) error {
	return b.settlerUpdate(ctx, `UPDATE payment SET settlement = 'settling', block = 0, block_hash = '', reason = '`+reorganised+`', changed = ?2 WHERE id = ?1`, id, b.now().UnixMicro())
}

// MarkFinished stores that a payment's block is deep enough to be final.
func (b *Book) MarkFinished(ctx context.Context, id int64) error {
	return b.endSettlement(ctx, id, `UPDATE payment SET settlement = 'final', changed = ?2 WHERE id = ?1`, b.now().UnixMicro())
}

// MarkRefused stores that the transfer fails at present: it is to be sent again.
func (b *Book) MarkRefused(ctx context.Context, id int64, reason string) error {
	return b.endSettlement(ctx, id, `UPDATE payment SET settlement = 'none', tx = '', reason = ?3, attempts = attempts + 1, changed = ?2 WHERE id = ?1`, b.now().UnixMicro(), reason)
}

// MarkFailed stores that the transfer can no longer be made.
func (b *Book) MarkFailed(ctx context.Context, id int64, reason string) error {
	return b.endSettlement(ctx, id, `UPDATE payment SET settlement = 'failed', tx = '', reason = ?3, changed = ?2 WHERE id = ?1`, b.now().UnixMicro(), reason)
}

// MarkLost stores that a failed payment was taken back in the ledger.
func (b *Book) MarkLost(ctx context.Context, id int64) error {
	return b.settlerUpdate(ctx, `UPDATE payment SET lost = 1 WHERE id = ?`, id)
}

// endSettlement changes a payment and closes its transactions, which are not checked any more.
func (b *Book) endSettlement(ctx context.Context, id int64, query string, args ...any) error {
	return b.settlerTx(ctx, func(tx queries) error {
		if _, err := tx.exec(ctx, `UPDATE sent SET open = 0 WHERE payment = ?`, id); err != nil {
			return err
		}
		_, err := tx.exec(ctx, query, append([]any{id}, args...)...)
		return err
	})
}

// settlerUpdate runs one statement of the settling gateway.
func (b *Book) settlerUpdate(ctx context.Context, query string, args ...any) error {
	return b.settlerTx(ctx, func(tx queries) error {
		_, err := tx.exec(ctx, query, args...)
		return err
	})
}

// settlerTx runs a transaction of the settling gateway.
func (b *Book) settlerTx(ctx context.Context, do func(tx queries) error) error {
	return b.atomically(ctx, func(tx queries) error {
		if err := b.peers.fence(ctx, tx); err != nil {
			return err
		}
		return do(tx)
	})
}

// SentFor returns the transactions of a payment that may still be mined, the newest first.
func (b *Book) SentFor(ctx context.Context, id int64) ([]Sent, error) {
	return b.sent(ctx, `payment = ? AND open = 1 ORDER BY at DESC`, id)
}

// Slots returns the settling account's transaction nonces, from one on, that pending transactions have.
func (b *Book) Slots(ctx context.Context, from uint64) (map[uint64]bool, error) {
	list, err := b.sent(ctx, `open = 1 AND slot >= ?`, int64(from)) //nolint:gosec // a count of transactions
	taken := map[uint64]bool{}
	for i := range list {
		taken[list[i].Slot] = true
	}
	return taken, err
}

// FeesAt returns the highest fees of the transactions in a slot; zero if there are none.
func (b *Book) FeesAt(ctx context.Context, slot uint64) (f pay.Fees, err error) {
	list, err := b.sent(ctx, `slot = ?`, int64(slot)) //nolint:gosec // a count of transactions
	for i := range list {
		o := list[i].Fees
		if f.Cap == nil || o.Cap.Cmp(f.Cap) > 0 {
			f.Cap = o.Cap
		}
		if f.Tip == nil || o.Tip.Cmp(f.Tip) > 0 {
			f.Tip = o.Tip
		}
	}
	return f, err
}

func (b *Book) sent(ctx context.Context, where string, args ...any) (list []Sent, err error) {
	err = retryLost(ctx, func() error {
		list = nil
		rows, err := b.rows(ctx, `SELECT hash, slot, raw, tip, cap, at FROM sent WHERE `+where, args...)
		if err != nil {
			return err
		}
		return eachRow(rows, func(row scanner) error {
			s, err := scanSent(row)
			list = append(list, s)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func scanSent(row scanner) (s Sent, err error) {
	var hash, tip, feeCap string
	var at int64
	if err := row.Scan(&hash, &s.Slot, &s.Raw, &tip, &feeCap, &at); err != nil {
		return Sent{}, err
	}
	s.At = time.UnixMicro(at)
	var ok [2]bool
	s.Fees.Tip, ok[0] = new(big.Int).SetString(tip, 10)
	s.Fees.Cap, ok[1] = new(big.Int).SetString(feeCap, 10)
	if !ok[0] || !ok[1] {
		return Sent{}, fmt.Errorf("the fees of transaction %s cannot be read", hash)
	}
	s.Hash, err = pay.ParseWord(hash)
	return s, err
}
