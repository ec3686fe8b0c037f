package book

import (
	"context"
	"fmt"
	"math/big"
	"time"

	"bardo.money/gateway/policy/pay"
)

// Sent is a transaction that was signed for a payment.
type Sent struct {
	pay.Transaction
	At time.Time
}

// Due are the payments whose money is on its way, or to be sent: oldest first.
func (b *Book) Due(ctx context.Context) ([]Payment, error) {
	return b.list(ctx, `settlement IN ('settling', 'confirmed') OR settlement = 'none' AND service = 'served'`)
}

// Unwritten are failed payments whose loss the ledger does not have yet.
func (b *Book) Unwritten(ctx context.Context) ([]Payment, error) {
	return b.list(ctx, `settlement = 'failed' AND lost = 0`)
}

// What follows is of the gateway that settles (Claim). The error is ErrLost where another one does by now.

// Signed stores a transaction before it is sent. The payment is settling from here on.
func (b *Book) Signed(ctx context.Context, id int64, t *pay.Transaction) error {
	now := b.now().UnixMicro()
	return b.settles(ctx, func(tx queries) error {
		if _, err := tx.exec(ctx, `INSERT INTO sent (hash, payment, slot, raw, tip, cap, open, at) VALUES (?, ?, ?, ?, ?, ?, 1, ?) ON CONFLICT (hash) DO NOTHING`,
			t.Hash.String(), id, int64(t.Slot), t.Raw, t.Fees.Tip.String(), t.Fees.Cap.String(), now); err != nil { //nolint:gosec // a count of transactions
			return err
		}
		_, err := tx.exec(ctx, `UPDATE payment SET settlement = 'settling', tx = ?, changed = ? WHERE id = ?`, t.Hash.String(), now, id)
		return err
	})
}

// Ordered notes that somebody else is told to make the transfer. The payment is settling from here on.
func (b *Book) Ordered(ctx context.Context, id int64) error {
	return b.settle(ctx, `UPDATE payment SET settlement = 'settling', tx = '', changed = ?2 WHERE id = ?1`, id, b.now().UnixMicro())
}

// Found notes that a transaction of somebody else moved the money.
func (b *Book) Found(ctx context.Context, id int64, hash pay.Word) error {
	return b.settle(ctx, `UPDATE payment SET settlement = 'settling', tx = ?2, changed = ?3 WHERE id = ?1`, id, hash.String(), b.now().UnixMicro())
}

// Confirmed notes the block that has a payment's transaction.
func (b *Book) Confirmed(ctx context.Context, id int64, hash pay.Word, r pay.Receipt) error {
	return b.settle(ctx, `UPDATE payment SET settlement = 'confirmed', tx = ?2, block = ?3, block_hash = ?4, reason = '', changed = ?5 WHERE id = ?1`,
		id, hash.String(), int64(r.Block), r.BlockHash.String(), b.now().UnixMicro()) //nolint:gosec // a block's number
}

// Unconfirmed notes that the block of a payment's transaction is not in the chain any more.
func (b *Book) Unconfirmed(ctx context.Context, id int64) error {
	return b.settle(ctx, `UPDATE payment SET settlement = 'settling', block = 0, block_hash = '', reason = 'the chain was reorganised', changed = ?2 WHERE id = ?1`, id, b.now().UnixMicro())
}

// Finished notes that a payment's block is deep enough.
func (b *Book) Finished(ctx context.Context, id int64) error {
	return b.end(ctx, id, `UPDATE payment SET settlement = 'final', changed = ?2 WHERE id = ?1`, b.now().UnixMicro())
}

// Refused notes that the transfer fails at present: nothing of the payment is on its way.
func (b *Book) Refused(ctx context.Context, id int64, reason string) error {
	return b.end(ctx, id, `UPDATE payment SET settlement = 'none', tx = '', reason = ?3, attempts = attempts + 1, changed = ?2 WHERE id = ?1`, b.now().UnixMicro(), reason)
}

// MarkFailed notes that the transfer can never happen any more.
func (b *Book) MarkFailed(ctx context.Context, id int64, reason string) error {
	return b.end(ctx, id, `UPDATE payment SET settlement = 'failed', tx = '', reason = ?3, changed = ?2 WHERE id = ?1`, b.now().UnixMicro(), reason)
}

// MarkLost notes that the ledger has the loss of a failed payment.
func (b *Book) MarkLost(ctx context.Context, id int64) error {
	return b.settle(ctx, `UPDATE payment SET lost = 1 WHERE id = ?`, id)
}

// end changes a payment none of whose transactions is looked at any more.
func (b *Book) end(ctx context.Context, id int64, query string, args ...any) error {
	return b.settles(ctx, func(tx queries) error {
		if _, err := tx.exec(ctx, `UPDATE sent SET open = 0 WHERE payment = ?`, id); err != nil {
			return err
		}
		_, err := tx.exec(ctx, query, append([]any{id}, args...)...)
		return err
	})
}

// settle changes a payment.
func (b *Book) settle(ctx context.Context, query string, args ...any) error {
	return b.settles(ctx, func(tx queries) error {
		_, err := tx.exec(ctx, query, args...)
		return err
	})
}

// settles runs a transaction of the gateway that settles.
func (b *Book) settles(ctx context.Context, do func(tx queries) error) error {
	return b.atomically(ctx, func(tx queries) error {
		if err := b.peers.fence(ctx, tx); err != nil {
			return err
		}
		return do(tx)
	})
}

// SentFor are the transactions of a payment that may still be mined, the newest first.
func (b *Book) SentFor(ctx context.Context, id int64) ([]Sent, error) {
	return b.sent(ctx, `payment = ? AND open = 1 ORDER BY at DESC`, id)
}

// Slots are the numbers of transactions that settling payments have taken, from one on.
func (b *Book) Slots(ctx context.Context, from uint64) (map[uint64]bool, error) {
	list, err := b.sent(ctx, `open = 1 AND slot >= ?`, int64(from)) //nolint:gosec // a count of transactions
	taken := map[uint64]bool{}
	for i := range list {
		taken[list[i].Slot] = true
	}
	return taken, err
}

// FeesAt are the highest fees that were offered for a slot; the zero value if nothing was sent with it.
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
	err = again(ctx, func() error {
		list = nil
		rows, err := b.rows(ctx, `SELECT hash, slot, raw, tip, cap, at FROM sent WHERE `+where, args...)
		if err != nil {
			return err
		}
		return each(rows, func(row scanner) error {
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
	var hash, tip, most string
	var at int64
	if err := row.Scan(&hash, &s.Slot, &s.Raw, &tip, &most, &at); err != nil {
		return Sent{}, err
	}
	s.At = time.UnixMicro(at)
	var ok [2]bool
	s.Fees.Tip, ok[0] = new(big.Int).SetString(tip, 10)
	s.Fees.Cap, ok[1] = new(big.Int).SetString(most, 10)
	if !ok[0] || !ok[1] {
		return Sent{}, fmt.Errorf("the fees of transaction %s cannot be read", hash)
	}
	s.Hash, err = pay.ParseWord(hash)
	return s, err
}
