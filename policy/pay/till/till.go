// Package till takes payments for requests: it has each verified and reserved before its request is served, books what the request cost, and has the money
// moved on the chain, whatever fails in between. It knows the order of these steps; the states are in package book, the money in the ledger, and what a
// chain says comes from a pay.Chain.
//
// A payment and its request are two transactions in two files, so each step leaves a state that the next start goes on from: a request that was being
// served when its gateway ended costs nothing, and one that was served is booked once and settled once.
package till

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// Ledger is where wallets have their credit. *ledger.Ledger implements it.
type Ledger interface {
	// CreditWallet adds a payment to a wallet's account, once per reference.
	CreditWallet(ctx context.Context, acct policy.Account, amount, fee policy.Micro, ref string) error
	// CreditServed is CreditWallet for a payment whose request is charged next: what that costs is set aside, in the hold that it returns, which is h unless that is nil.
	CreditServed(ctx context.Context, acct policy.Account, amount, fee policy.Micro, ref string, c *ledger.Charge, h *ledger.Hold) (*ledger.Hold, error)
	// TakeBack takes a payment that never arrived out of a wallet's account, once per reference, and returns what the account does not have.
	TakeBack(ctx context.Context, acct policy.Account, amount policy.Micro, ref string) (loss policy.Micro, err error)
	// Reserve sets an amount of an account's money aside.
	Reserve(ctx context.Context, account policy.Account, requestID string, amount policy.Micro) (*ledger.Hold, error)
	// Release ends a reservation without a charge. A nil one, and one that has ended, are left alone.
	Release(h *ledger.Hold)
	// Balance is what an account has. The error is ledger.ErrUnknownKey where there is no such account.
	Balance(ctx context.Context, account policy.Account) (ledger.Balance, error)
	// Owed is what an account owes for payments that never arrived.
	Owed(ctx context.Context, account policy.Account) (policy.Micro, error)
	// Pardons are how losses were forgiven, by their keys (ledger.LossKey), of those that were.
	Pardons(ctx context.Context, keys []string) (map[string]ledger.Pardon, error)
	// Charged reports whether a request was charged to an account.
	Charged(ctx context.Context, account policy.Account, requestID string) (bool, error)
	// Capture charges a reservation, which ends, and returns when that is durable. A request is charged once.
	Capture(ctx context.Context, h *ledger.Hold, c ledger.Charge) (ledger.Receipt, error)
}

// Options of a till. All but the last group are required.
type Options struct {
	Terms  *pay.Terms
	Seal   pay.Seal
	Chain  pay.Chain
	Book   *book.Book
	Ledger Ledger
	Limits book.Limits
	Log    *slog.Logger
	Now    func() time.Time

	Settler       pay.Settler   // makes the transfers; nil: the chain's settling account does
	SettleFirst   policy.Micro  // payments that are at least so large are settled before their requests are served, and taken by scheme exact alone; zero means none
	MostLosses    policy.Micro  // what requests may cost within an hour whose payments do not arrive, before all payments are settled first; zero means any
	Confirmations uint64        // blocks after which a transfer counts, its own included; zero means 1
	Finality      uint64        // blocks after which a transfer is not looked at again; zero means 64
	Poll          time.Duration // between looks at the chain; zero means 1 second
	Bump          time.Duration // after which a transaction that is in no block is replaced with higher fees; zero means 30 seconds
	FewTransfers  int64         // LowGas is called, at most once a minute, when the settling account can pay for fewer; zero means 100
	LowGas        func(left int64)
	Lost          func(Loss)
}

// Loss is a payment that was served and will never arrive.
type Loss struct {
	Account policy.Account `json:"-"`
	Payer   string         `json:"payer"`
	Request string         `json:"request_id"`
	Amount  policy.Micro   `json:"amount_usd"`
	Loss    policy.Micro   `json:"loss_usd"`
	Reason  string         `json:"reason"`
}

// Till takes payments. Safe for concurrent use.
type Till struct {
	Options
	kicked    chan struct{}
	rechecked time.Time // of the loop
	resent    map[int64]time.Time
	wasted    noted[int] // transactions of payments that were mined and moved nothing, since the start
	asked     time.Time
	timeout   time.Duration    // of requests whose payments are settled first
	lag       time.Duration    // of a node behind another one, at most
	unbooked  noted[bool]      // payments of this gateway that are settled first, while their requests run
	absent    noted[time.Time] // payments that are used, and whose transfers are not found: since when
	lost      atomic.Pointer[losses]
}

// New makes a till. Run has to run for payments to be settled.
func New(o Options) *Till {
	o.Confirmations, o.Finality = or(o.Confirmations, 1), or(o.Finality, 64)
	o.Poll, o.Bump = or(o.Poll, time.Second), or(o.Bump, 30*time.Second)
	o.FewTransfers = or(o.FewTransfers, 100)
	if o.LowGas == nil {
		o.LowGas = func(int64) {}
	}
	if o.Lost == nil {
		o.Lost = func(Loss) {}
	}
	return &Till{Options: o, kicked: make(chan struct{}, 1), resent: map[int64]time.Time{}, timeout: firstTimeout, lag: lagTime}
}

func or[T comparable](v, unset T) T {
	var zero T
	if v == zero {
		return unset
	}
	return v
}

// Taken is a payment that is reserved for a request, and what of its payer's credit is set aside beside it.
type Taken struct {
	book.Payment

	Credit policy.Micro
	Owed   policy.Micro // what its payer owed for payments that never arrived: it is taken of the payment first
	hold   *ledger.Hold
	first  bool         // it is in a block already
	fee    policy.Micro // with first: due when its request is served
}

// Take verifies a payment for a request that costs at most price, and reserves it; credit of the payer makes up for what it lacks. The error is a
// *pay.Refusal, book.ErrInUse or book.ErrSpent with the payment as it is, or the chain's, the book's or the ledger's.
func (t *Till) Take(ctx context.Context, p *pay.Payment, digest pay.Word, price policy.Micro, requestID string) (Taken, error) {
	if known, err := t.known(ctx, p); err != nil {
		return Taken{Payment: known}, err
	}
	var owed policy.Micro // by scheme upto it cannot be paid
	if !p.UpTo {
		var err error
		if owed, err = t.Owed(ctx, p.From); err != nil {
			return Taken{}, err
		}
	}
	short, why := t.Terms.CheckAmount(t.Seal, p, digest, price, owed, t.Now())
	if why != nil && p.Value < t.Terms.Least {
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
	row, first, err := t.reserve(ctx, p, requestID, head.Number, owed)
	if err != nil {
		t.Ledger.Release(hold)
		return Taken{Payment: row}, err
	}
	if !arrived {
		if arrived, err = t.askSettler(ctx, p, &row); err != nil {
			t.Ledger.Release(hold)
			return Taken{}, err
		}
	}
	taken := Taken{Payment: row, Credit: short, Owed: owed, hold: hold}
	if first || arrived {
		return t.settleFirst(ctx, taken)
	}
	return taken, nil
}

// checkTimes refuses an authorization that ends too early to be settled, or too late for its loss to be known.
func (t *Till) checkTimes(a *pay.Authorization, now time.Time) error {
	if err := t.Terms.CheckWindow(a, now); err != nil {
		return err
	}
	return t.Terms.CheckEnd(a, now)
}

// Owed is what a payer owes for payments that never arrived.
func (t *Till) Owed(ctx context.Context, payer pay.Address) (policy.Micro, error) {
	return t.Ledger.Owed(ctx, pay.Account(payer))
}

// holdCredit sets aside what a payment lacks. why is the refusal of a payer whose credit does not cover it.
func (t *Till) holdCredit(ctx context.Context, p *pay.Payment, requestID string, short policy.Micro, why *pay.Refusal) (*ledger.Hold, error) {
	if short == 0 {
		return nil, nil //nolint:nilnil // nothing is missing
	}
	has, err := t.Credit(ctx, p.From)
	if err != nil {
		return nil, err
	}
	if has < short {
		return nil, why
	}
	h, err := t.Ledger.Reserve(ctx, pay.Account(p.From), requestID, short)
	if _, ok := errors.AsType[*ledger.InsufficientError](err); ok { // another request was faster
		return nil, why
	}
	if err != nil {
		return nil, err
	}
	if left, err := t.spendable(ctx, p.From); err != nil || left < 0 { // others were, and this one has of what is in no block yet
		t.Ledger.Release(h)
		return nil, cmp.Or(err, error(why))
	}
	return h, nil
}

// Credit is what a payer may spend of the account, which payments that are not in a block yet are no part of. Below zero it is what the payer owes.
func (t *Till) Credit(ctx context.Context, payer pay.Address) (policy.Micro, error) {
	b, err := t.Ledger.Balance(ctx, pay.Account(payer))
	if errors.Is(err, ledger.ErrUnknownKey) {
		return 0, nil
	}
	if err != nil || b.Blocked {
		return -b.Owed, err
	}
	left, err := t.spendable(ctx, payer)
	return max(left, 0), err
}

// spendable is what a payer's account has that is not set aside, less the payments that are in no block yet. Below zero, some of those is set aside.
func (t *Till) spendable(ctx context.Context, payer pay.Address) (policy.Micro, error) {
	b, err := t.Ledger.Balance(ctx, pay.Account(payer))
	if err != nil {
		return 0, err
	}
	open, err := t.Book.Unsettled(ctx, payer)
	return b.Available - open, err
}

// known refuses a payment that this till has used, without asking the chain: its payer must not be told to pay again.
func (t *Till) known(ctx context.Context, p *pay.Payment) (book.Payment, error) {
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

// verify asks the chain whether a payment is good. arrived: its money is here already.
func (t *Till) verify(ctx context.Context, p *pay.Payment) (arrived bool, err error) {
	if err := t.Chain.Verify(ctx, p); err != nil {
		return t.arrived(ctx, p, err)
	}
	return false, nil
}

// refused is the error of a payment that the chain refuses. Another request may have used it in the meantime.
func (t *Till) refused(ctx context.Context, p *pay.Payment, why error) (Taken, error) {
	if known, err := t.known(ctx, p); err != nil {
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

// Served books what a request cost, and has its payment settled. It returns when the charge is durable. It does not end with the context.
func (t *Till) Served(ctx context.Context, p *Taken, c ledger.Charge) (ledger.Receipt, error) {
	ctx = context.WithoutCancel(ctx)
	if p.first {
		return t.servedFirst(ctx, p, c)
	}
	captured := t.captured(p, c.Amount)
	if err := t.Book.MarkServed(ctx, p.ID, c.Amount, captured); err != nil {
		return ledger.Receipt{}, err
	}
	p.Captured = captured
	defer t.kick()
	return t.bookCharge(ctx, &p.Payment, p.hold, c)
}

// captured is what is moved for a request's cost: the whole value, or with scheme upto the cost and the fee, and never more than was signed.
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

// bookCharge adds a payment to its payer's account and charges its request there: to what is set aside of it, and for the rest to what the payment brought.
// It may be repeated.
func (t *Till) bookCharge(ctx context.Context, p *book.Payment, h *ledger.Hold, c ledger.Charge) (r ledger.Receipt, err error) {
	account := pay.Account(p.From)
	if h == nil {
		if done, err := t.Ledger.Charged(ctx, account, p.Request); err != nil {
			return ledger.Receipt{}, err
		} else if done { // what is left of the payment may be less than a second charge
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

// Release gives a payment back whose request cost nothing: nothing goes to the chain, and the payer may use it again. One that was settled first becomes its
// payer's credit, without a fee.
func (t *Till) Release(ctx context.Context, p *Taken) error {
	t.Ledger.Release(p.hold)
	if p.first {
		return t.releaseFirst(ctx, p)
	}
	return t.Book.Release(context.WithoutCancel(ctx), p.ID)
}

// Await waits until a payment has arrived or failed, or the context ends, and returns how it stands.
func (t *Till) Await(ctx context.Context, id int64) (book.Payment, error) {
	const often = 50 * time.Millisecond
	tick := time.NewTicker(often)
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

// kick has the loop look now.
func (t *Till) kick() {
	select {
	case t.kicked <- struct{}{}:
	default:
	}
}
