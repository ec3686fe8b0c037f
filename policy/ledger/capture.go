package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/usage"
)

// Charge is the usage and cost of one request.
type Charge = chargelog.Charge

// Tokens are a request's tokens.
type Tokens = chargelog.Tokens

// Receipt is the result of a charge.
type Receipt struct {
	Charged  policy.Micro // paid by the account
	Loss     policy.Micro // the unpaid part: a loss of the operator; the key is blocked until a deposit
	Balance  policy.Micro // the balance afterwards; reservations of other requests are not subtracted
	Repeated bool         // the request was charged before and not again
	Late     bool         // the store cannot be written, so it is not known yet how much the balance pays: the other fields are expected values
}

// Capture charges a request to its hold, which ends, and returns once the charge is in the gateway's charge log; with Options.Durable, once it
// is on disk. The charge's RequestID and Account are the hold's. A charge above the hold is also paid from the rest of the balance; the unpaid
// part is recorded as a loss. A request id is charged once: repeating it for the same hold, or before the first charge is in the store, returns the
// first receipt; a later repetition is detected when it is applied, and costs nothing. Capture does not stop when the context ends, so that a client
// that disconnects still pays. After an error the hold is still open.
//
// A charge that cannot be appended to the log stays in memory, and Writable fails until the log has it. The error is an *UnwritableError if too many
// charges wait.
func (l *Ledger) Capture(ctx context.Context, h *Hold, c Charge) (Receipt, error) {
	c.RequestID, c.Account = h.request, h.account.name
	r, err := l.capture(context.WithoutCancel(ctx), h, l.complete(c))
	if err != nil {
		return Receipt{}, fmt.Errorf("capture request %s: %w", h.request, err)
	}
	return r, nil
}

func (l *Ledger) capture(ctx context.Context, h *Hold, c Charge) (Receipt, error) {
	if err := check(&c); err != nil {
		return Receipt{}, err
	}
	h.captures.Lock()
	defer h.captures.Unlock()
	if r, ok := l.earlierReceipt(h); ok {
		return r, nil
	}
	h.beginCapture(l.o.Now())
	open, err := l.cover(ctx, h, c.Amount)
	if err != nil {
		h.abandonCapture()
		return Receipt{}, err
	}
	p := h.pay(&c, open)
	o := l.captureOp(p)
	o.Done = func(err error) { l.pending.remove(p.entry); p.settle(err) }
	l.pending.add(p.entry)
	if err := l.writer.Append(o); err != nil {
		l.pending.remove(p.entry)
		p.undo()
		return Receipt{}, err
	}
	if l.durable.Load() {
		l.writer.WaitSynced(o)
	}
	if p.receipt.Loss > 0 { // commit the blocking of the key before a deposit can unblock it
		_ = l.do(func(*book) error { return nil }, nil)
	}
	return p.receipt, nil
}

// captureOp returns the op that applies a payment, alone or in a batch.
func (l *Ledger) captureOp(p *payment) *commit.Op {
	return &commit.Op{
		Entry: p.entry, Batch: &batched{p.entry, p.hold.account, &p.applied},
		Apply: func() (err error) { p.applied, err = l.book.captureHold(p.entry, p.hold.account); return err },
	}
}

// earlierReceipt is the receipt of an earlier charge of the hold, or of another hold of the request whose charge is not in the store yet.
func (l *Ledger) earlierReceipt(h *Hold) (Receipt, bool) {
	if r, ok := h.earlierReceipt(); ok {
		return r, true
	}
	e, ok := l.pending.entry(h.request)
	if !ok || e.Charge.Account != h.account.name {
		return Receipt{}, false
	}
	l.Release(h)
	paid := e.Expected()
	return Receipt{Charged: paid, Loss: e.Charge.Amount - paid, Balance: h.account.balanceNow(), Repeated: true, Late: e.Open}, true
}

// cover adds money to a hold that is below its charge, as far as there is any. open reports that the store cannot be written, so that it is not known how much
// there is.
func (l *Ledger) cover(ctx context.Context, h *Hold, amount policy.Micro) (open bool, err error) {
	more := amount - h.Amount() - h.standing
	if more <= 0 {
		return false, nil
	}
	err = l.grow(ctx, h, more, false)
	if commit.IsUnwritable(err) {
		return true, nil
	}
	return false, err
}

// Record stores a request that no balance pays for: of a metered key or without a key. Like a capture it is appended to the charge log, but it does not
// wait for the disk. A request id is recorded once. The error is ErrAmount, ErrClosed, or an *UnwritableError if too many wait.
func (l *Ledger) Record(c Charge) error {
	c = l.complete(c)
	if err := check(&c); err != nil {
		return fmt.Errorf("record request %s: %w", c.RequestID, err)
	}
	a := l.account(c.Account)
	a.beginSpending(c.Amount)
	e := &chargelog.Entry{Charge: &c}
	var r Receipt
	o := &commit.Op{Entry: e, Batch: &batched{entry: e, receipt: &r}, Apply: func() (err error) { r.Charged, err = l.book.record(&c); return err }}
	o.Done = func(err error) {
		if err != nil {
			r.Charged = 0
		}
		l.pending.remove(e)
		a.endSpending(&c, r.Charged)
	}
	l.pending.add(e)
	if err := l.writer.Append(o); err != nil {
		o.Done(err)
		return fmt.Errorf("record request %s: %w", c.RequestID, err)
	}
	return nil
}

func (l *Ledger) complete(c Charge) Charge {
	if c.At.IsZero() {
		c.At = l.o.Now()
	}
	return c
}

func check(c *Charge) error {
	if c.Amount < 0 || c.Amount > maxAmount || c.ProviderCost < 0 {
		return fmt.Errorf("%w: %s USD, cost %s USD", ErrAmount, c.Amount, c.ProviderCost)
	}
	return nil
}

// captureHold applies a charge of this gateway.
func (b *book) captureHold(e *chargelog.Entry, a *account) (Receipt, error) {
	account, err := b.numberOf(a)
	if err != nil {
		return Receipt{}, err
	}
	return b.capture(e, source{account, b.Instance})
}

// numberOf is an account's number in the store.
func (b *book) numberOf(a *account) (int64, error) {
	if n := a.number(); n != 0 {
		return n, nil
	}
	return b.accountOf(a.name) // the store's file was replaced since the hold was created
}

// source is the account that pays a charge, and the gateway whose block is used.
type source struct{ account, instance int64 }

// accountOf is an account's id in the store.
func (b *book) accountOf(name policy.Account) (id int64, err error) {
	err = b.Row(`SELECT id FROM account WHERE name = ?`, name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrUnknownKey
	}
	return id, err
}

// capture charges a request to an account.
func (b *book) capture(e *chargelog.Entry, f source) (Receipt, error) {
	c := e.Charge
	if r, ok, err := b.earlierReceipt(c, f.account); ok || err != nil {
		return r, err
	}
	paid, balance, err := b.pay(e, f)
	if err != nil {
		return Receipt{}, err
	}
	r := Receipt{Charged: paid, Loss: c.Amount - paid, Balance: balance}
	var journal sql.NullInt64
	if c.Amount > 0 {
		journal.Valid = true
		if journal.Int64, err = b.charge(c, f.account, r); err != nil {
			return Receipt{}, err
		}
	}
	_, err = b.addRequest(c, journal, r.Charged)
	return r, err
}

// pay takes a charge out of a balance and returns the remaining balance. The gateway's block pays; or, if others considered the gateway dead and
// returned its block, the part of the balance that no block holds. That part also pays the rest of an open entry, and receives the request's standing hold.
func (b *book) pay(e *chargelog.Entry, f source) (paid, left policy.Micro, err error) {
	amount, held := e.Expected(), e.Paid
	if amount == 0 {
		left, err = b.micro(f.account)
		return 0, left, err
	}
	if e.Standing > 0 {
		if err := b.endStandingHold(e.Charge.RequestID, f.account); err != nil {
			return 0, 0, err
		}
	}
	n, err := b.Exec(`UPDATE block SET micro = micro - ?1 WHERE account = ?2 AND instance = ?3 AND micro >= ?1`, held, f.account, f.instance)
	if err != nil {
		return 0, 0, err
	}
	if n == 0 {
		held = 0
	}
	if held < amount {
		var available policy.Micro
		if err := b.Row(`SELECT micro - held + credit FROM balance WHERE account = ?`, f.account).Scan(&available); err != nil {
			return 0, 0, err
		}
		amount = held + max(0, min(amount-held, available))
	}
	err = b.Row(`UPDATE balance SET micro = micro - ?, held = held - ? WHERE account = ? RETURNING micro`, amount, held, f.account).Scan(&left)
	return amount, left, err
}

// endStandingHold ends the standing hold of a request that is being charged. The charge takes precedence over the account's debt.
func (b *book) endStandingHold(request string, account int64) error {
	var amount policy.Micro
	err := b.Row(`DELETE FROM standing WHERE request = ? AND account = ? RETURNING micro`, request, account).Scan(&amount)
	if errors.Is(err, sql.ErrNoRows) { // released by an operator
		return nil
	}
	if err != nil {
		return err
	}
	_, err = b.Exec(`UPDATE balance SET held = held - ? WHERE account = ?`, amount, account)
	return err
}

// micro is the balance of an account.
func (b *book) micro(account int64) (m policy.Micro, err error) {
	err = b.Row(`SELECT micro FROM balance WHERE account = ?`, account).Scan(&m)
	return m, err
}

// earlierReceipt returns the receipt of an earlier charge of the request.
func (b *book) earlierReceipt(c *Charge, account int64) (Receipt, bool, error) {
	amount, charged, ok, err := b.earlierCharge(c)
	if !ok || err != nil {
		return Receipt{}, ok, err
	}
	balance, err := b.micro(account)
	return Receipt{Charged: charged, Loss: amount - charged, Balance: balance, Repeated: true}, true, err
}

// earlierCharge finds an earlier charge of a request. The error is ErrReused if another account was charged.
func (b *book) earlierCharge(c *Charge) (amount, charged policy.Micro, ok bool, err error) {
	var account policy.Account
	err = b.Row(`SELECT account, amount, charged FROM request WHERE id = ?`, c.RequestID).Scan(&account, &amount, &charged)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, false, nil
	}
	if err == nil && account != c.Account {
		err = ErrReused
	}
	return amount, charged, true, err
}

// charge writes the journal of a request: revenue from the key and, for the unpaid part, from the loss account.
func (b *book) charge(c *Charge, account int64, r Receipt) (int64, error) {
	journal, err := b.addJournal("charge", ChargeKey(c.RequestID), c.RequestID, c.At, []entry{
		{account, -r.Charged}, {accountRevenue, c.Amount}, {accountLoss, -r.Loss},
	})
	if err != nil || r.Loss == 0 {
		return journal, err
	}
	_, err = b.Exec(`UPDATE balance SET blocked = 1 WHERE account = ?`, account)
	return journal, err
}

// record writes a request without moving money, and returns the amount that counts as spent.
func (b *book) record(c *Charge) (policy.Micro, error) {
	added, err := b.addRequest(c, sql.NullInt64{}, c.Amount)
	if added || err != nil {
		return c.Amount, err
	}
	_, _, _, err = b.earlierCharge(c)
	return 0, err
}

// addRequest inserts a request's row and adds it to the totals, unless its id exists.
func (b *book) addRequest(c *Charge, journal sql.NullInt64, charged policy.Micro) (added bool, err error) {
	n, err := b.Exec(usage.InsertRequest+`(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		usage.AppendRequest(nil, c, journal, charged)...)
	if n == 0 || err != nil {
		return false, err
	}
	b.tally.Add(c, charged)
	return true, nil
}
