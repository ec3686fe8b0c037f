package book

import (
	"context"
	"time"

	"bardo.money/gateway/policy/pay"
)

// A payment that was released may be moved all the same, by anybody who has its signature: its payer, or a facilitator. Then it is its payer's money, whether the payment is sent again or not: so the chain is
// asked for it, when nobody sends it again, and when it cannot be moved any more.

// againTime is how long a released payment is left for its payer to send it again.
const againTime = 15 * time.Second

// ToLookFor are released payments of which the chain is to be asked whether they were moved, those that wait for the longest time: at most so many.
func (b *Book) ToLookFor(ctx context.Context, most int) ([]Payment, error) {
	return b.list(ctx, `id IN (SELECT id FROM payment WHERE look_at > 0 AND look_at <= ? AND service = 'released' ORDER BY look_at LIMIT ?)`, b.now().UnixMicro(), most)
}

// What follows is of the gateway that settles (Claim). The error is ErrLost where another one does by now.

// LookAgain notes when the chain is to be asked for a released payment again; the zero value is never.
func (b *Book) LookAgain(ctx context.Context, id int64, at time.Time) error {
	var next int64
	if !at.IsZero() {
		next = at.UnixMicro()
	}
	return b.settle(ctx, `UPDATE payment SET look_at = ?2 WHERE id = ?1 AND service = 'released'`, id, next)
}

// Arrived notes that a transaction of somebody else moved the money of a released payment: from here on it is as one that was served for nothing, without a fee. ok is false where it is not released any more.
func (b *Book) Arrived(ctx context.Context, id int64, hash pay.Word) (p Payment, ok bool, err error) {
	err = b.settles(ctx, func(tx queries) error {
		if err := b.peers.serialize(ctx, tx); err != nil { // its payer may send it again
			return err
		}
		n, err := tx.exec(ctx, `UPDATE payment SET service = 'served', charge = 0, captured = amount, fee = 0, holder = ?2, settlement = 'settling', tx = ?3, look_at = 0,
	changed = ?4 WHERE id = ?1 AND service = 'released' AND settlement = 'none' AND upto = 0`, id, b.holder, hash.String(), b.now().UnixMicro())
		if ok = n == 1; err != nil || !ok {
			return err
		}
		p, err = scan(tx.row(ctx, selectPayments+` WHERE id = ?`, id))
		return err
	})
	return p, ok && err == nil, err
}
