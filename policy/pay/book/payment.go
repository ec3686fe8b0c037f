package book

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
)

// Service is the state of a payment's request.
type Service string

// The states of service.
const (
	Serving  Service = "serving"
	Served   Service = "served"
	Released Service = "released"
)

// Settlement is the state of a payment's transfer.
type Settlement string

// The states of settlement.
const (
	None      Settlement = "none"
	Settling  Settlement = "settling"
	Confirmed Settlement = "confirmed"
	Final     Settlement = "final"
	Failed    Settlement = "failed"
)

// Payment is a payment's row.
type Payment struct {
	ID int64
	pay.Authorization
	Signature  []byte
	Network    string
	Asset      string
	Fee        policy.Micro
	Request    string
	Holder     string
	Service    Service
	Settlement Settlement
	Charge     policy.Micro
	Captured   policy.Micro // moved, or to be moved, once the request was served
	Booked     bool
	FromBlock  uint64
	Tx         pay.Word // zero: none yet
	Block      uint64
	BlockHash  pay.Word
	Reason     string
	Attempts   int
	At         time.Time // of the first reservation
	Changed    time.Time

	Debt policy.Micro // the part of the payer's debt that the payment is to pay; set by Reserve alone
}

// ReferencePrefix is the prefix of payments' references.
const ReferencePrefix = "x402:"

// Reference identifies a payment in the ledger, permanently.
func (p *Payment) Reference() string {
	return ReferencePrefix + p.Network + ":" + p.Asset + ":" + p.From.String() + ":" + p.Nonce.String()
}

// Transfer returns the transfer of the payment.
func (p *Payment) Transfer() *pay.Transfer {
	return &pay.Transfer{Authorization: p.Authorization, Amount: p.Captured, Signature: p.Signature}
}

// Limits are conditions for payers.
type Limits struct {
	Exposure policy.Micro // maximum of a payer's unconfirmed payments; 0 means no limit
	Owed     policy.Micro // the payer's debt in the ledger
	Debt     policy.Micro // the part of it that the payment covers beside its request, less what other payments pay meanwhile
	Failed   bool         // accept payers with unpaid requests: their payments are settled first, unless the failed ones were forgiven
}

// Errors of Reserve, besides a *pay.Refusal.
var (
	// ErrInUse: another request is being served for the payment.
	ErrInUse = errors.New("the payment is paying for another request right now")
	// ErrSpent: a request was served for the payment.
	ErrSpent = errors.New("the payment has paid for a request")
	// ErrLost: the payment no longer belongs to this gateway.
	ErrLost = errors.New("the payment is held by another gateway")
)

// Reserve reserves a payment for a request, durably. The error is a *pay.Refusal, or ErrInUse or ErrSpent, with the stored payment, if another request has it.
func (b *Book) Reserve(ctx context.Context, t *pay.Terms, p *pay.Payment, requestID string, fromBlock uint64, l Limits) (row Payment, err error) {
	if err := b.peers.ensureLease(ctx); err != nil {
		return Payment{}, err
	}
	err = b.atomically(ctx, func(tx queries) error {
		if err := b.peers.serialize(ctx, tx); err != nil {
			return err
		}
		row, err = find(ctx, tx, t.Network.String(), t.Asset.Address.String(), p)
		if err == nil {
			if row.Service == Serving && row.Holder == b.holder && row.Request == requestID {
				return tx.row(ctx, `SELECT debt FROM payment WHERE id = ?`, row.ID).Scan(&row.Debt) // it was reserved before the connection was lost
			}
			if err := row.reusable(p); err != nil {
				return err
			}
		} else if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err := b.checkPayer(ctx, tx, p, l); err != nil {
			return err
		}
		pending, err := pendingDebt(ctx, tx, p.From)
		if err != nil {
			return err
		}
		debt := max(0, min(l.Debt, l.Owed-pending))
		row, err = b.insert(ctx, tx, t, p, requestID, fromBlock, debt)
		row.Debt = debt
		return err
	})
	return row, err
}

// PendingDebt returns the sum of a payer's debt that payments are to pay and the ledger has not collected yet. A payment that failed does not count, nor one
// whose transfer cannot be sent at present: a payer could cancel it and have others served without paying the debt.
func (b *Book) PendingDebt(ctx context.Context, payer pay.Address) (sum policy.Micro, err error) {
	err = retryLost(ctx, func() error {
		sum, err = pendingDebt(ctx, b.queries, payer)
		return err
	})
	return sum, err
}

func pendingDebt(ctx context.Context, on queries, payer pay.Address) (sum policy.Micro, err error) {
	err = on.row(ctx, `SELECT CAST(coalesce(sum(debt), 0) AS BIGINT) FROM payment WHERE payer = ? AND debt > 0 AND booked = 0 AND service <> 'released'
	AND (settlement IN ('none', 'settling') AND attempts = 0 OR settlement IN ('confirmed', 'final'))`, payer.String()).Scan(&sum)
	return sum, err
}

// reusable refuses a payment that another request uses or has used.
func (p *Payment) reusable(q *pay.Payment) error {
	switch {
	case p.Service == Serving:
		return ErrInUse
	case p.Service == Served || p.Settlement != None:
		return ErrSpent
	case p.Authorization != q.Authorization:
		return &pay.Refusal{Reason: pay.ReasonNonceUsed, Detail: "the nonce was used for another authorization"}
	}
	return nil
}

// unpaid is the condition of failed payments for which a request was served, or other credit was spent. The latter is known once they are taken back in the
// ledger: from then on, the payer owes it.
const unpaid = `settlement = 'failed' AND (charge > 0 OR lost = 0)`

// A payer whose transfers failed before anything was served for them owes nothing and is trusted. But each of them has cost gas, or calls of a facilitator, so a
// payer may have maxUnserved of them within unservedPeriod.
const (
	maxUnserved    = 3
	unservedPeriod = time.Hour
)

// checkPayer refuses payers with unpaid requests, with too many unconfirmed payments, and with too many failed transfers.
func (b *Book) checkPayer(ctx context.Context, tx queries, p *pay.Payment, l Limits) error {
	if err := b.checkUnserved(ctx, tx, p); err != nil {
		return err
	}
	var open policy.Micro
	var failed int
	err := tx.row(ctx, `SELECT
	CAST(coalesce(sum(CASE service WHEN 'served' THEN captured ELSE amount END) FILTER (WHERE service <> 'released' AND settlement IN ('none', 'settling')), 0) AS BIGINT),
	count(*) FILTER (WHERE `+unpaid+`)
FROM payment WHERE payer = ?`, p.From.String()).Scan(&open, &failed)
	switch {
	case err != nil:
		return err
	case failed > 0 && !l.Failed:
		return &pay.Refusal{Reason: pay.ReasonBlocked, Detail: "an earlier payment of this wallet could not be settled: pay by scheme exact, or use an API key"}
	case l.Exposure > 0 && open.Plus(p.Value) > l.Exposure:
		return &pay.Refusal{Reason: pay.ReasonExposure, Detail: fmt.Sprintf("payments of this wallet over %s USD are not settled yet, and at most %s may be: wait for them", open, l.Exposure)}
	}
	return nil
}

// checkUnserved refuses payers with too many failed transfers for which nothing was served.
func (b *Book) checkUnserved(ctx context.Context, tx queries, p *pay.Payment) error {
	var at int64 // of the earliest one that counts
	err := tx.row(ctx, `SELECT changed FROM payment WHERE payer = ? AND service = 'served' AND charge = 0 AND attempts > 0 AND settlement IN ('none', 'settling', 'failed')
ORDER BY changed DESC LIMIT 1 OFFSET ?`, p.From.String(), maxUnserved-1).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	wait := time.UnixMicro(at).Add(unservedPeriod).Sub(b.now())
	if err != nil || wait <= 0 {
		return err
	}
	return &pay.Refusal{
		Reason: pay.ReasonExposure, RetryAfter: wait.Truncate(time.Second) + time.Second,
		Detail: fmt.Sprintf("the transfers of %d payments of this wallet failed within an hour: wait, or use an API key", maxUnserved),
	}
}

// Failed returns the failed payments of a payer.
func (b *Book) Failed(ctx context.Context, payer pay.Address) ([]Payment, error) {
	return b.list(ctx, `payer = ? AND settlement = 'failed'`, payer.String())
}

// Unpaid returns the failed payments of a payer for which a request was served, or the latest limit ones; limit 0 means all. A payment that failed just now is
// among them, even if nothing was served for it.
func (b *Book) Unpaid(ctx context.Context, payer pay.Address, limit int) ([]Payment, error) {
	return b.list(ctx, `id IN (SELECT id FROM payment WHERE payer = ? AND `+unpaid+` ORDER BY id DESC LIMIT ?)`, payer.String(), cmp.Or(limit, math.MaxInt))
}

// Unsettled returns the sum of a payer's credited payments that are in no block yet, or failed and were not taken back yet.
func (b *Book) Unsettled(ctx context.Context, payer pay.Address) (sum policy.Micro, err error) {
	err = retryLost(ctx, func() error {
		return b.row(ctx, `SELECT CAST(coalesce(sum(captured), 0) AS BIGINT) FROM payment WHERE payer = ? AND service = 'served'
	AND (settlement IN ('none', 'settling') OR settlement = 'failed' AND lost = 0)`, payer.String()).Scan(&sum)
	})
	return sum, err
}

func (b *Book) insert(ctx context.Context, tx queries, t *pay.Terms, p *pay.Payment, requestID string, fromBlock uint64, debt policy.Micro) (Payment, error) {
	now := b.now().UnixMicro()
	fee := min(t.Fee, p.Value)
	_, err := tx.exec(ctx, `INSERT INTO payment (network, asset, payer, nonce, pay_to, amount, fee, valid_after, valid_before, signature, request, holder, service,
	settlement, from_block, at, changed, upto, facilitator, debt) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 'serving', 'none', ?13, ?14, ?14, ?15, ?16, ?17)
ON CONFLICT (network, asset, payer, nonce) DO UPDATE SET request = ?11, holder = ?12, service = 'serving', signature = ?10, fee = ?7, changed = ?14, look_at = 0, debt = ?17`, // from_block stays: the money may have been moved since then
		t.Network.String(), t.Asset.Address.String(), p.From.String(), p.Nonce.String(), p.To.String(), int64(p.Value), int64(fee), int64(p.ValidAfter), int64(p.ValidBefore), //nolint:gosec // bounded by pay.Parse
		p.Signature, requestID, b.holder, int64(fromBlock), now, p.UpTo, facilitatorOf(p), int64(debt)) //nolint:gosec // a block's number
	if err != nil {
		return Payment{}, err
	}
	return find(ctx, tx, t.Network.String(), t.Asset.Address.String(), p)
}

// facilitatorOf is the stored facilitator: only permits have one.
func facilitatorOf(p *pay.Payment) string {
	if p.UpTo {
		return p.Facilitator.String()
	}
	return ""
}

// MarkServed stores a request's cost and the amount to be moved, durably; from here on the payment is to be settled. The error is ErrLost if it is another
// gateway's.
func (b *Book) MarkServed(ctx context.Context, id int64, charge, captured policy.Micro) error {
	return b.updateOwned(ctx, `UPDATE payment SET service = 'served', charge = ?3, captured = ?4, changed = ?5 WHERE id = ?1 AND holder = ?2
	AND (service = 'serving' OR service = 'served' AND booked = 0 AND charge = ?3 AND captured = ?4)`, // or it was noted before the connection was lost
		id, b.holder, int64(charge), int64(captured), b.now().UnixMicro())
}

// MarkSettledFirst stores that a payment is settled before its request is served, durably. It has no fee until MarkCharged. The error is ErrLost if it is another
// gateway's.
func (b *Book) MarkSettledFirst(ctx context.Context, id int64) error {
	return b.updateOwned(ctx, `UPDATE payment SET service = 'served', charge = 0, fee = 0, captured = amount, changed = ?3 WHERE id = ?1 AND holder = ?2
	AND (service = 'serving' OR service = 'served' AND booked = 0 AND charge = 0)`, // or it was noted before the connection was lost
		id, b.holder, b.now().UnixMicro())
}

// MarkCharged stores the request's cost and the fee of a payment that was settled first, durably. The error is ErrLost if the payment is another gateway's, or
// was booked without a charge.
func (b *Book) MarkCharged(ctx context.Context, id int64, charge, fee policy.Micro) error {
	return b.updateOwned(ctx, `UPDATE payment SET charge = ?3, fee = ?4, changed = ?5 WHERE id = ?1 AND holder = ?2 AND service = 'served' AND booked = 0 AND charge IN (0, ?3)`,
		id, b.holder, int64(charge), int64(fee), b.now().UnixMicro())
}

// Release releases a payment whose request cost nothing: it may be used again. A payment that serves no request is not changed.
func (b *Book) Release(ctx context.Context, id int64) error {
	now := b.now()
	return b.update(ctx, `UPDATE payment SET service = 'released', changed = ?1, look_at = CASE upto WHEN 0 THEN CAST(?2 AS BIGINT) ELSE 0 END WHERE id = ?3 AND holder = ?4 AND service = 'serving'`,
		now.UnixMicro(), now.Add(firstQueryDelay).UnixMicro(), id, b.holder)
}

// MarkBooked stores that the ledger has a payment's credit and its request's charge.
func (b *Book) MarkBooked(ctx context.Context, id int64) error {
	return b.update(ctx, `UPDATE payment SET booked = 1 WHERE id = ?`, id)
}

// Adopt returns payments whose requests are not completely booked: those that this gateway served, and with others also those of gateways that no longer run,
// which it takes over. serves reports whether this gateway serves a request at the moment: a payment that is reserved for none is returned, too, since the answer
// to its reservation, or its release, was lost.
func (b *Book) Adopt(ctx context.Context, others bool, serves func(request string) bool) (open []Payment, err error) {
	rows, err := b.list(ctx, `(service = 'serving' OR service = 'served' AND booked = 0) AND (?1 = 1 OR holder = ?2)`, others, b.holder)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	running, err := b.peers.running(ctx) // after the rows: their holders were registered before
	if err != nil {
		return nil, err
	}
	for i := range rows {
		p := &rows[i]
		if p.Holder == b.holder {
			if b.now().Sub(p.Changed) >= bookTimeout && (p.Service == Served || !serves(p.Request)) {
				open = append(open, *p)
			}
			continue
		}
		if is, err := running(p.Holder); is || err != nil {
			if err != nil {
				return open, err
			}
			continue
		}
		switch err := b.updateOwned(ctx, `UPDATE payment SET holder = ?2 WHERE id = ?1 AND holder IN (?2, ?3) AND service = ?4`, p.ID, b.holder, p.Holder, string(p.Service)); {
		case errors.Is(err, ErrLost): // its gateway still runs, and changed it
		case err != nil:
			return open, err
		default:
			open = append(open, *p)
		}
	}
	return open, nil
}

// bookTimeout is the time after which the booking of a served request, or the release of another, is retried.
const bookTimeout = 5 * time.Second

// updateOwned changes a row that must exist; the error is ErrLost otherwise.
func (b *Book) updateOwned(ctx context.Context, query string, args ...any) error {
	return retryLost(ctx, func() error {
		n, err := b.exec(ctx, query, args...)
		if err == nil && n == 0 {
			err = ErrLost
		}
		return err
	})
}

// update changes a row if it exists.
func (b *Book) update(ctx context.Context, query string, args ...any) error {
	return retryLost(ctx, func() error {
		_, err := b.exec(ctx, query, args...)
		return err
	})
}

// ByID returns a payment.
func (b *Book) ByID(ctx context.Context, id int64) (Payment, error) {
	p, ok, err := b.one(ctx, `id = ?`, id)
	if err == nil && !ok {
		err = sql.ErrNoRows
	}
	return p, err
}

// Find returns the payment with the same network, asset, payer and nonce; ok is false if there is none.
func (b *Book) Find(ctx context.Context, t *pay.Terms, q *pay.Payment) (p Payment, ok bool, err error) {
	return b.one(ctx, byNonce, t.Network.String(), t.Asset.Address.String(), q.From.String(), q.Nonce.String())
}

// ByReference returns the payment with a reference; ok is false if there is none.
func (b *Book) ByReference(ctx context.Context, reference string) (p Payment, ok bool, err error) {
	parts := strings.Split(strings.TrimPrefix(reference, ReferencePrefix), ":")
	n := len(parts) - 3 // the network may have several parts
	if n < 1 {
		return Payment{}, false, nil
	}
	return b.one(ctx, byNonce, strings.Join(parts[:n], ":"), parts[n], parts[n+1], parts[n+2])
}

// ByRequest returns the payment of a request; ok is false if there is none.
func (b *Book) ByRequest(ctx context.Context, requestID string) (p Payment, ok bool, err error) {
	return b.one(ctx, `request = ? ORDER BY id DESC LIMIT 1`, requestID)
}

// one returns a payment; ok is false if there is none.
func (b *Book) one(ctx context.Context, where string, args ...any) (p Payment, ok bool, err error) {
	err = retryLost(ctx, func() error {
		p, err = scan(b.row(ctx, selectPayments+` WHERE `+where, args...))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Payment{}, false, nil
	}
	return p, err == nil, err
}

func (b *Book) list(ctx context.Context, where string, args ...any) (list []Payment, err error) {
	err = retryLost(ctx, func() error {
		list = nil
		rows, err := b.rows(ctx, selectPayments+` WHERE `+where+` ORDER BY id`, args...)
		if err != nil {
			return err
		}
		return eachRow(rows, func(row scanner) error {
			p, err := scan(row)
			list = append(list, p)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// eachRow calls one for each row, and closes rows.
func eachRow(rows *sql.Rows, one func(row scanner) error) error {
	for rows.Next() {
		if err := one(rows); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

const selectPayments = `SELECT id, network, asset, payer, nonce, pay_to, amount, fee, valid_after, valid_before, signature, request, holder, service, settlement, charge, booked,
	from_block, tx, block, block_hash, reason, attempts, at, changed, upto, facilitator, captured FROM payment`

// byNonce is the condition of the unique key of payments.
const byNonce = `network = ? AND asset = ? AND payer = ? AND nonce = ?`

func find(ctx context.Context, tx queries, network, asset string, p *pay.Payment) (Payment, error) {
	return scan(tx.row(ctx, selectPayments+` WHERE `+byNonce, network, asset, p.From.String(), p.Nonce.String()))
}

type scanner interface{ Scan(into ...any) error }

func scan(row scanner) (p Payment, err error) {
	var payer, nonce, to, tx, blockHash, facilitator string
	var at, changed int64
	if err := row.Scan(&p.ID, &p.Network, &p.Asset, &payer, &nonce, &to, &p.Value, &p.Fee, &p.ValidAfter, &p.ValidBefore, &p.Signature, &p.Request, &p.Holder, &p.Service, &p.Settlement,
		&p.Charge, &p.Booked, &p.FromBlock, &tx, &p.Block, &blockHash, &p.Reason, &p.Attempts, &at, &changed, &p.UpTo, &facilitator, &p.Captured); err != nil {
		return Payment{}, err
	}
	p.At, p.Changed = time.UnixMicro(at), time.UnixMicro(changed)
	var errs [6]error
	p.From, errs[0] = pay.ParseAddress(payer)
	p.To, errs[1] = pay.ParseAddress(to)
	p.Nonce, errs[2] = pay.ParseWord(nonce)
	p.Tx, errs[3] = wordOrNone(tx)
	p.BlockHash, errs[4] = wordOrNone(blockHash)
	if p.UpTo {
		p.Facilitator, errs[5] = pay.ParseAddress(facilitator)
	}
	return p, errors.Join(errs[:]...)
}

func wordOrNone(s string) (pay.Word, error) {
	if s == "" {
		return pay.Word{}, nil
	}
	return pay.ParseWord(s)
}
