// Package till processes payments for requests: a payment is verified and reserved before its request is served, then the request's cost is booked, and the
// transfer is settled on the chain, whatever fails in between. The package implements the order of these steps; the states are in package book, the money is in
// the ledger, and a pay.Chain reads and writes the chain.
//
// The payment and the charge are in two stores, so each step leaves a state from which the next start of a gateway continues: a request that was being served
// when its gateway ended costs nothing, and one that was served is booked once and settled once.
package till

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// Ledger has the accounts of wallets. *ledger.Ledger implements it.
type Ledger interface {
	// CreditWallet adds a payment to a wallet's account, once per reference.
	CreditWallet(ctx context.Context, acct policy.Account, amount, fee policy.Micro, ref string) error
	// CreditServed is CreditWallet for a payment whose request is charged next: the request's cost is reserved in the returned hold, which is h unless that is nil.
	CreditServed(ctx context.Context, acct policy.Account, amount, fee policy.Micro, ref string, c *ledger.Charge, h *ledger.Hold) (*ledger.Hold, error)
	// TakeBack removes the credit of a payment that never arrived from a wallet's account, once per reference, and returns the part that the account did not have.
	TakeBack(ctx context.Context, acct policy.Account, amount policy.Micro, ref string) (loss policy.Micro, err error)
	// Reserve reserves an amount of an account's money.
	Reserve(ctx context.Context, account policy.Account, requestID string, amount policy.Micro) (*ledger.Hold, error)
	// Release ends a reservation without a charge. It ignores nil, and reservations that have ended.
	Release(h *ledger.Hold)
	// Balance returns an account's balance. The error is ledger.ErrUnknownKey if there is no such account.
	Balance(ctx context.Context, account policy.Account) (ledger.Balance, error)
	// Owed returns an account's debt for payments that never arrived.
	Owed(ctx context.Context, account policy.Account) (policy.Micro, error)
	// ForgivenLosses returns the forgiven ones of some losses, by their keys (ledger.LossKey).
	ForgivenLosses(ctx context.Context, keys []string) (map[string]ledger.Forgiveness, error)
	// Charged reports whether a request was charged to an account.
	Charged(ctx context.Context, account policy.Account, requestID string) (bool, error)
	// Capture charges a reservation and ends it; it returns when the charge is durable. A request is charged once.
	Capture(ctx context.Context, h *ledger.Hold, c ledger.Charge) (ledger.Receipt, error)
}

// Options of a till. All but the last group are required.
type Options struct {
	Terms  *pay.Terms
	Signer pay.QuoteSigner
	Chain  pay.Chain
	Book   *book.Book
	Ledger Ledger
	Limits book.Limits
	Log    *slog.Logger
	Now    func() time.Time

	Settler         pay.Settler   // makes the transfers; nil: the chain's settling account does
	SettleFirst     policy.Micro  // payments of at least this amount are settled before their requests are served, and accepted only by scheme exact; zero means none
	MaxLosses       policy.Micro  // cost of requests within an hour whose payments do not arrive, from which all payments are settled first; zero means no limit
	Confirmations   uint64        // blocks after which a transfer is confirmed, its own included; zero means 1
	Finality        uint64        // blocks after which a transfer is not checked again; zero means 64
	Poll            time.Duration // interval of passes over the payments; zero means 1 second
	Bump            time.Duration // time after which a transaction that is in no block is replaced with higher fees; zero means 30 seconds
	LowGasTransfers int64         // LowGas is called, at most once a minute, while the settling account can pay the gas of fewer transfers; zero means 100
	LowGas          func(left int64)
	Lost            func(Loss)
}

// Loss is a payment that paid for a request or other credit, and will never arrive.
type Loss struct {
	Account policy.Account `json:"-"`
	Payer   string         `json:"payer"`
	Request string         `json:"request_id"`
	Amount  policy.Micro   `json:"amount_usd"`
	Loss    policy.Micro   `json:"loss_usd"`
	Reason  string         `json:"reason"`
}

// Till processes payments. Safe for concurrent use.
type Till struct {
	Options
	wake         chan struct{}
	rechecked    time.Time             // last check of confirmed payments; of the loop
	resent       map[int64]time.Time   // last sending of payments' transactions; of the loop
	failedTxs    perPayment[int]       // number of a payment's transactions that were mined and moved nothing, since the start
	gasChecked   time.Time             // last check of the settling account; of the loop
	timeout      time.Duration         // for the settlement of payments that are settled first
	lag          time.Duration         // maximum lag of a node: lagTime, or less in tests
	requests     sync.Map              // ids of this gateway's requests whose payments are reserved, or will be
	unbooked     perPayment[bool]      // payments of this gateway that are settled first, while their requests run
	missingSince perPayment[time.Time] // payments whose authorizations are used, and whose transfers are not found: since when
	lost         atomic.Pointer[losses]
}

// New returns a till. Payments are settled while Run runs.
func New(o Options) *Till {
	o.Confirmations, o.Finality = or(o.Confirmations, 1), or(o.Finality, 64)
	o.Poll, o.Bump = or(o.Poll, time.Second), or(o.Bump, 30*time.Second)
	o.LowGasTransfers = or(o.LowGasTransfers, 100)
	if o.LowGas == nil {
		o.LowGas = func(int64) {}
	}
	if o.Lost == nil {
		o.Lost = func(Loss) {}
	}
	return &Till{Options: o, wake: make(chan struct{}, 1), resent: map[int64]time.Time{}, timeout: firstTimeout, lag: maxLag}
}

func or[T comparable](v, unset T) T {
	var zero T
	if v == zero {
		return unset
	}
	return v
}

// Taken is a payment that is reserved for a request.
type Taken struct {
	book.Payment

	Credit policy.Micro // reserved of the payer's credit, since the payment is below the price
	Owed   policy.Micro // the payer's debt for payments that never arrived, which the payment pays first
	hold   *ledger.Hold
	first  bool         // it is in a block already
	fee    policy.Micro // with first: due when its request is served
}

// Take verifies a payment for a request of at most price, and reserves it; credit of the payer covers the difference if it is less. The error is a *pay.Refusal,
// book.ErrInUse or book.ErrSpent with the stored payment, ErrUnsettled, or an error of the chain, the book or the ledger.
func (t *Till) Take(ctx context.Context, p *pay.Payment, digest pay.Word, price policy.Micro, requestID string) (_ Taken, err error) {
	if known, err := t.checkUnused(ctx, p); err != nil {
		return Taken{Payment: known}, err
	}
	owes, err := t.debt(ctx, p.From)
	if err != nil {
		return Taken{}, err
	}
	due := owes.left
	if p.UpTo { // which cannot pay a debt
		due = 0
	}
	short, why := t.Terms.CheckAmount(t.Signer, p, digest, price, due, t.Now())
	if p.UpTo && owes.all > 0 {
		if why != nil { // the client gets the price, with the debt
			return Taken{}, why
		}
		return Taken{}, p.Refuse(pay.ReasonBlocked, "an earlier payment of this wallet could not be settled, and %s USD are owed for it: pay by scheme exact, or use an API key", owes.all)
	}
	if why != nil && p.Value < t.Terms.MinPrice {
		return Taken{}, why
	}
	if p.UpTo && t.SettlesFirst(p.Value) {
		return Taken{}, t.refuseUpTo(p)
	}
	arrived, err := t.verify(ctx, p)
	if err != nil {
		return t.refused(ctx, p, err)
	}
	head, err := t.Chain.Head(ctx)
	if err != nil {
		return Taken{}, err
	}
	if err := t.checkTimes(&p.Authorization, latest(t.Now(), head.Time)); err != nil {
		return Taken{}, err
	}
	hold, err := t.holdCredit(ctx, p, requestID, short, why)
	if err != nil {
		return Taken{}, err
	}
	t.requests.Store(requestID, nil)
	defer func() {
		if err != nil {
			t.requests.Delete(requestID)
		}
	}()
	row, first, err := t.reserve(ctx, p, requestID, head.Number, owes)
	if err != nil {
		t.Ledger.Release(hold)
		return Taken{Payment: row}, err
	}
	if !arrived {
		if arrived, err = t.verifyWithSettler(ctx, p, &row); err != nil {
			t.Ledger.Release(hold)
			return Taken{}, err
		}
	}
	taken := Taken{Payment: row, Credit: short, Owed: row.Debt, hold: hold}
	if first || arrived {
		return t.settleFirst(ctx, taken)
	}
	return taken, nil
}

// checkTimes refuses an authorization that expires before it can be settled, or so late that its loss would be known too late.
func (t *Till) checkTimes(a *pay.Authorization, now time.Time) error {
	if err := t.Terms.CheckWindow(a, now); err != nil {
		return err
	}
	return t.Terms.CheckEnd(a, now)
}

// debt is a payer's debt for payments that never arrived, and the part of it that no payment is to pay yet.
type debt struct{ all, left policy.Micro }

func (t *Till) debt(ctx context.Context, payer pay.Address) (d debt, err error) {
	if d.all, err = t.Ledger.Owed(ctx, pay.Account(payer)); err != nil || d.all == 0 {
		return d, err
	}
	pending, err := t.Book.PendingDebt(ctx, payer) // before the debt, which is collected before it is no longer pending
	if err != nil {
		return d, err
	}
	d.all, err = t.Ledger.Owed(ctx, pay.Account(payer))
	d.left = max(0, d.all-pending)
	return d, err
}

// Owed returns a payer's debt for payments that never arrived, less the part that payments in progress are to pay.
func (t *Till) Owed(ctx context.Context, payer pay.Address) (policy.Micro, error) {
	d, err := t.debt(ctx, payer)
	return d.left, err
}

// holdCredit reserves the amount that a payment is short of. why is the refusal of a payer whose credit does not cover it.
func (t *Till) holdCredit(ctx context.Context, p *pay.Payment, requestID string, short policy.Micro, why *pay.Refusal) (*ledger.Hold, error) {
	if short == 0 {
		return nil, nil //nolint:nilnil // the payment is enough
	}
	has, err := t.Credit(ctx, p.From)
	if err != nil {
		return nil, err
	}
	if has < short {
		return nil, why
	}
	h, err := t.Ledger.Reserve(ctx, pay.Account(p.From), requestID, short)
	if _, ok := errors.AsType[*ledger.InsufficientError](err); ok { // another request took the credit meanwhile
		return nil, why
	}
	if err != nil {
		return nil, err
	}
	if left, err := t.spendable(ctx, p.From); err != nil || left < 0 { // the hold includes money of payments that are in no block yet
		t.Ledger.Release(h)
		return nil, cmp.Or(err, error(why))
	}
	return h, nil
}

// Credit returns the credit that a payer may spend, without payments that are in no block yet. Below zero, it is the payer's debt, as of Owed.
func (t *Till) Credit(ctx context.Context, payer pay.Address) (policy.Micro, error) {
	b, err := t.Ledger.Balance(ctx, pay.Account(payer))
	if errors.Is(err, ledger.ErrUnknownKey) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if b.Blocked {
		owed, err := t.Owed(ctx, payer)
		return -owed, err
	}
	left, err := t.spendable(ctx, payer)
	return max(left, 0), err
}

// spendable is the available balance of a payer, less the payments that are in no block yet. Below zero, a part of these is reserved.
func (t *Till) spendable(ctx context.Context, payer pay.Address) (policy.Micro, error) {
	b, err := t.Ledger.Balance(ctx, pay.Account(payer))
	if err != nil {
		return 0, err
	}
	open, err := t.Book.Unsettled(ctx, payer)
	return b.Available - open, err
}

// checkUnused refuses a payment that was used here, without asking the chain: its payer must not be asked to pay again.
func (t *Till) checkUnused(ctx context.Context, p *pay.Payment) (book.Payment, error) {
	known, ok, err := t.Book.Find(ctx, t.Terms, p)
	switch {
	case err != nil || !ok:
		return book.Payment{}, err
	case known.Service == book.Serving:
		return known, book.ErrInUse
	case known.Service == book.Served || known.Settlement != book.None:
		return known, book.ErrSpent
	}
	return book.Payment{}, nil
}

// verify has the chain verify a payment. arrived: it was moved already, for an earlier request that cost nothing.
func (t *Till) verify(ctx context.Context, p *pay.Payment) (arrived bool, err error) {
	if err := t.Chain.Verify(ctx, p); err != nil {
		return t.movedBefore(ctx, p, err)
	}
	return false, nil
}

// refused returns the error of a payment that the chain refuses: another request may have used it meanwhile.
func (t *Till) refused(ctx context.Context, p *pay.Payment, why error) (Taken, error) {
	if known, err := t.checkUnused(ctx, p); err != nil {
		return Taken{Payment: known}, err
	}
	return Taken{}, why
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Served books the cost of a request, and starts the settlement of its payment. It returns when the charge is durable, and ignores the context's end.
func (t *Till) Served(ctx context.Context, p *Taken, c ledger.Charge) (r ledger.Receipt, err error) {
	ctx = context.WithoutCancel(ctx)
	defer func() {
		if err == nil { // otherwise the payment is released next
			t.requests.Delete(p.Request)
		}
	}()
	if p.first {
		return t.servedFirst(ctx, p, c)
	}
	captured := t.captured(p, c.Amount)
	if err := t.Book.MarkServed(ctx, p.ID, c.Amount, captured); err != nil {
		return ledger.Receipt{}, err
	}
	p.Captured = captured
	defer t.wakeUp()
	return t.bookCharge(ctx, &p.Payment, p.hold, c)
}

// captured returns the amount to be moved for a request's cost: the whole value, or with scheme upto the cost and the fee, and at most the signed value.
func (t *Till) captured(p *Taken, cost policy.Micro) policy.Micro {
	if !p.UpTo {
		return p.Value
	}
	price := t.Terms.Price(cost)
	if price > p.Value.Plus(p.Credit) {
		t.Log.Warn("a request cost more than its payment allows", "request", p.Request, "cost_usd", price.String(), "allowed_usd", p.Value.String())
	}
	return min(price, p.Value)
}

// bookCharge credits a payment to its payer's account and charges its request there: to the hold h, and the rest to the payment. It may be repeated.
func (t *Till) bookCharge(ctx context.Context, p *book.Payment, h *ledger.Hold, c ledger.Charge) (r ledger.Receipt, err error) {
	account := pay.Account(p.From)
	if h == nil {
		if done, err := t.Ledger.Charged(ctx, account, p.Request); err != nil {
			return ledger.Receipt{}, err
		} else if done { // the rest of the payment may be less than a second charge
			return ledger.Receipt{}, t.credit(ctx, p)
		}
	}
	if h, err = t.Ledger.CreditServed(ctx, account, p.Captured, p.Fee, p.Reference(), &c, h); err != nil {
		return ledger.Receipt{}, err
	}
	r, err = t.Ledger.Capture(ctx, h, c)
	if err != nil {
		return ledger.Receipt{}, err
	}
	return r, t.Book.MarkBooked(ctx, p.ID)
}

// Release releases a payment whose request cost nothing: no transfer is sent, and the payer may use it again. One that was settled first becomes its payer's
// credit, without a fee.
func (t *Till) Release(ctx context.Context, p *Taken) error {
	defer t.requests.Delete(p.Request)
	t.Ledger.Release(p.hold)
	if p.first {
		return t.releaseFirst(ctx, p)
	}
	return t.Book.Release(context.WithoutCancel(ctx), p.ID)
}

// Await waits until a payment is confirmed or failed, or the context ends, and returns its current state.
func (t *Till) Await(ctx context.Context, id int64) (book.Payment, error) {
	const interval = 50 * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		p, err := t.Book.ByID(context.WithoutCancel(ctx), id)
		if err != nil || p.Settlement != book.None && p.Settlement != book.Settling {
			return p, err
		}
		select {
		case <-ctx.Done():
			return p, nil
		case <-tick.C:
		}
	}
}

// wakeUp starts the loop's next pass immediately.
func (t *Till) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
