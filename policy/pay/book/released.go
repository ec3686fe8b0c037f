package book

import (
	"context"
	"time"

	"bardo.money/gateway/policy/pay"
)

// A released payment may be moved nevertheless, by anybody who has its signature: its payer, or a facilitator. Then it is its payer's money, even if the payment
// is not sent again. The chain is therefore queried for it some time after the release, and once more when it can no longer be moved.

// firstQueryDelay is the time between a release and the first query: the payer may send the payment again meanwhile.
const firstQueryDelay = 15 * time.Second

// DueForLookup returns the released payments for which the chain is to be queried now, the ones that wait longest first, at most limit.
func (b *Book) DueForLookup(ctx context.Context, limit int) ([]Payment, error) {
	return b.list(ctx, `id IN (SELECT id FROM payment WHERE look_at > 0 AND look_at <= ? AND service = 'released' ORDER BY look_at LIMIT ?)`, b.now().UnixMicro(), limit)
}

// The following methods are for the settling gateway (Claim). Their error is ErrLost if that is another one now.

// ScheduleLookup stores when the chain is to be queried again for a released payment; zero means never.
func (b *Book) ScheduleLookup(ctx context.Context, id int64, at time.Time) error {
	var next int64
	if !at.IsZero() {
		next = at.UnixMicro()
	}
	return b.settlerUpdate(ctx, `UPDATE payment SET look_at = ?2 WHERE id = ?1 AND service = 'released'`, id, next)
}

// MarkMovedByOther stores the transaction of somebody else that moved a released payment: from here on, it is a served payment without a charge and without a fee, which
// is kept as credit. ok is false if it is no longer released.
func (b *Book) MarkMovedByOther(ctx context.Context, id int64, hash pay.Word) (p Payment, ok bool, err error) {
	err = b.settlerTx(ctx, func(tx queries) error {
		if err := b.peers.serialize(ctx, tx); err != nil { // its payer may send it again meanwhile
			return err
		}
		n, err := tx.exec(ctx, `UPDATE payment SET service = 'served', charge = 0, captured = amount, fee = 0, holder = ?2, settlement = 'settling', tx = ?3, look_at = 0,
	kept = 1, changed = ?4 WHERE id = ?1 AND service = 'released' AND settlement = 'none' AND upto = 0`, id, b.holder, hash.String(), b.now().UnixMicro())
		if ok = n == 1; err != nil || !ok {
			return err
		}
		p, err = scan(tx.row(ctx, selectPayments+` WHERE id = ?`, id))
		return err
	})
	return p, ok && err == nil, err
}

// IsMovedByOther reports whether a payment is kept as credit, since somebody else moved it after its release. The gateway itself does not make its transfer.
func (b *Book) IsMovedByOther(ctx context.Context, id int64) (kept bool, err error) {
	err = retryLost(ctx, func() error {
		return b.row(ctx, `SELECT kept <> 0 FROM payment WHERE id = ?`, id).Scan(&kept)
	})
	return kept, err
}
