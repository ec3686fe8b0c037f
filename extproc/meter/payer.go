package meter

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// Payer pays for one request. Its errors are faults, or the store's. A payer that needs something from the client first, such as a payment, refuses
// with a Challenge. Not safe for concurrent use.
type Payer interface {
	// Admit refuses a request if no money is left. It is called before the request's body is read.
	Admit(ctx context.Context) error
	// Immediate reports whether the payer most likely admits, reserves and settles without blocking.
	Immediate() bool
	// Reserve reserves the request's maximum cost, or refuses the request. It replaces an earlier reservation of another amount.
	Reserve(ctx context.Context, requestID string, amount policy.Micro) error
	// ReserveNow is Reserve without blocking; false means that nothing has changed.
	ReserveNow(requestID string, amount policy.Micro) bool
	// Settle charges, and returns when the charge is durable, or booked for a payer without a balance. owed reports whether a provider was called:
	// otherwise the reservation is released, and the charge only records how the request ended. Cancelling the context does not stop it.
	Settle(ctx context.Context, c ledger.Charge, owed bool) (ledger.Receipt, error)
	// Balance returns the available balance, once known. known is false for a payer without a balance.
	Balance() (left policy.Micro, known bool)
	// ReadBalance reads the available balance for a request that was not charged.
	ReadBalance(ctx context.Context) error
	// Limit returns the running cost at which the request's generation is stopped; ok is false if only the reservation limits it.
	Limit() (amount policy.Micro, ok bool)
	// Headers appends the payer's headers to those of an answer.
	Headers(h header.List) header.List
	// Release releases the rest of the reservation. It may be called more than once.
	Release()
}

// Challenge is the private cause of a fault: what a client must do first, such as pay or log in, in the format of that method.
type Challenge struct {
	Body   []byte // replaces the dialect's error body; nil: does not
	Header header.List
}

func (*Challenge) Error() string { return "the payer asks for something first" }

// Fault refuses a request with the challenge.
func (c *Challenge) Fault() *fault.Fault {
	return fault.New(fault.PaymentRequired, "this request must be paid for first", c)
}

// Books are the prepaid balances and the booked charges. *ledger.Ledger implements it. Safe for concurrent use.
type Books interface {
	Solvent(ctx context.Context, account policy.Account) error
	Balance(ctx context.Context, account policy.Account) (ledger.Balance, error)
	// Reserve reserves an amount of a prepaid account. The error is an *ledger.InsufficientError if the balance is too low.
	Reserve(ctx context.Context, account policy.Account, requestID string, amount policy.Micro) (*ledger.Hold, error)
	// ReserveNow is Reserve without blocking; ok is false if that is not possible.
	ReserveNow(account policy.Account, requestID string, amount policy.Micro) (h *ledger.Hold, ok bool)
	// Extend adds an amount to a reservation, or changes nothing and returns an error, as Reserve does.
	Extend(ctx context.Context, h *ledger.Hold, more policy.Micro) error
	// Immediate reports whether an account's requests most likely do not block.
	Immediate(account policy.Account) bool
	// Capture charges a reservation, which ends, and returns when that is durable. Cancelling the context does not stop it.
	Capture(ctx context.Context, h *ledger.Hold, c ledger.Charge) (ledger.Receipt, error)
	// Record books a charge without a balance. It does not wait for the store.
	Record(c ledger.Charge) error
	// Release ends a reservation without a charge. It ignores nil, and a reservation that has ended.
	Release(h *ledger.Hold)
	// ConvertToStandingHold converts a reservation to one that outlives the gateway.
	ConvertToStandingHold(ctx context.Context, h *ledger.Hold, owner string) error
	// TakeStandingHold makes a standing reservation this gateway's again; an empty one if there is none.
	TakeStandingHold(ctx context.Context, account policy.Account, requestID string) (*ledger.Hold, error)
}

// PayerOf returns the payer of a principal's request: its key's balance, or postpaid.
func (m *Meter) PayerOf(p *policy.Principal) Payer {
	if p.Prepaid {
		return &prepaid{books: m.Books, account: p.Account}
	}
	return postpaid{m}
}

// postpaid pays for callers without a balance: keys that are billed later, and callers without a key. Charges are booked.
type postpaid struct{ meter *Meter }

func (postpaid) Immediate() bool                                     { return true }
func (postpaid) Admit(context.Context) error                         { return nil }
func (postpaid) Reserve(context.Context, string, policy.Micro) error { return nil }
func (postpaid) ReserveNow(string, policy.Micro) bool                { return true }

func (p postpaid) Settle(_ context.Context, c ledger.Charge, _ bool) (ledger.Receipt, error) {
	return ledger.Receipt{Charged: c.Amount}, p.meter.Books.Record(c)
}

func (postpaid) Balance() (left policy.Micro, known bool) { return 0, false }
func (postpaid) ReadBalance(context.Context) error        { return nil }
func (postpaid) Limit() (maxCost policy.Micro, ok bool)   { return 0, false }
func (postpaid) Headers(h header.List) header.List        { return h }
func (postpaid) Release()                                 {}

// prepaid pays from a key's balance.
type prepaid struct {
	books    Books
	account  policy.Account
	hold     *ledger.Hold
	reserved policy.Micro // amount of hold
	balance  policy.Micro
	known    bool
	retained policy.Micro // part of the balance reserved for other requests
}

func (p *prepaid) Admit(ctx context.Context) error { return unpaid(p.books.Solvent(ctx, p.account)) }

func (p *prepaid) Immediate() bool { return p.books.Immediate(p.account) }

func (p *prepaid) Reserve(ctx context.Context, requestID string, amount policy.Micro) (err error) {
	if p.hold != nil && p.reserved == amount {
		return nil
	}
	p.dropHold()
	p.hold, err = p.books.Reserve(ctx, p.account, requestID, amount)
	p.reserved = amount
	if err != nil {
		return unpaid(err)
	}
	return p.keep(ctx, amount)
}

// keep releases a reservation that uses the retained part of the balance. The reservation precedes reading the balance, so that concurrent requests
// see each other's.
func (p *prepaid) keep(ctx context.Context, amount policy.Micro) error {
	if p.retained == 0 || amount == 0 {
		return nil
	}
	left, err := p.left(ctx)
	if err == nil && left >= p.retained {
		return nil
	}
	p.books.Release(p.hold)
	p.hold = nil
	if err != nil {
		return err
	}
	return fault.New(fault.InsufficientFunds, fmt.Sprintf("this request may cost up to $%s and $%s is available: $%s of the balance is kept for risk, operator and death",
		amount, max(left.Plus(amount)-p.retained, 0), p.retained), errRetained)
}

// left returns the available balance, never too high: reservations are read before charges, so that a request charged in between counts twice rather
// than not at all.
func (p *prepaid) left(ctx context.Context) (policy.Micro, error) {
	before, err := p.books.Balance(ctx, p.account)
	if err != nil {
		return 0, err
	}
	b, err := p.books.Balance(ctx, p.account)
	return b.Available + b.Held - before.Held, err
}

// errRetained is the cause of a refusal because of the retained part of a balance.
var errRetained = errors.New("a part of the balance is kept for critical requests")

func (p *prepaid) ReserveNow(requestID string, amount policy.Micro) (ok bool) {
	if p.retained > 0 && amount > 0 { // the balance has to be read
		return false
	}
	h, ok := p.books.ReserveNow(p.account, requestID, amount)
	if ok {
		p.dropHold()
		p.hold, p.reserved = h, amount
	}
	return ok
}

// extend adds an amount to the reservation, or changes nothing and returns an error.
func (p *prepaid) extend(ctx context.Context, more policy.Micro) error {
	if p.hold == nil {
		return errNotExtended
	}
	if p.retained > 0 {
		if left, err := p.left(ctx); err != nil || left-more < p.retained {
			return cmp.Or(err, errRetained)
		}
	}
	if err := p.books.Extend(ctx, p.hold, more); err != nil {
		return err
	}
	p.reserved += more
	return nil
}

// dropHold releases an earlier reservation.
func (p *prepaid) dropHold() {
	if p.hold != nil {
		p.books.Release(p.hold)
	}
}

func (p *prepaid) Settle(ctx context.Context, c ledger.Charge, owed bool) (r ledger.Receipt, err error) {
	if p.hold == nil && owed && c.Amount > 0 { // a later reservation was refused, after a side call
		p.hold, _ = p.books.Reserve(ctx, p.account, c.RequestID, 0) // fails for a blocked key, which has nothing left
	}
	if p.hold != nil && owed {
		r, err = p.books.Capture(ctx, p.hold, c)
	} else {
		p.books.Release(p.hold)
		r.Charged, err = c.Amount, p.books.Record(c)
	}
	if err == nil && owed {
		p.balance, p.known = r.Balance, true
	}
	return r, err
}

func (p *prepaid) Balance() (left policy.Micro, known bool) { return p.balance, p.known }

func (p *prepaid) ReadBalance(ctx context.Context) error {
	b, err := p.books.Balance(ctx, p.account)
	if err != nil {
		return err
	}
	p.balance, p.known = b.Amount, true
	return nil
}

func (*prepaid) Limit() (maxCost policy.Micro, ok bool) { return 0, false }

// lowBalance is the balance below which answers carry a warning.
const lowBalance = policy.USD

func (p *prepaid) Headers(h header.List) header.List {
	if !p.known {
		return h
	}
	h = append(h, header.Field{Name: "x-bardo-balance", Value: p.balance.String()})
	if p.balance < lowBalance {
		h = append(h, header.Field{Name: "x-bardo-balance-warning", Value: "balance below $1.00"})
	}
	return h
}

func (p *prepaid) Release() { p.books.Release(p.hold) }

// unpaid returns the caller's fault when its key cannot pay, with the missing amount.
func unpaid(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ledger.ErrAmount) {
		return fault.New(fault.InsufficientFunds, "this request may cost more than any balance holds: set a lower max_tokens or n", err)
	}
	var short *ledger.InsufficientError
	if !errors.As(err, &short) {
		return err
	}
	if short.Blocked {
		return fault.New(fault.InsufficientFunds, "this key is blocked until a deposit: its last answer cost more than it had", err)
	}
	if short.Needed == 0 {
		return fault.New(fault.InsufficientFunds, "the balance of this key is used up: make a deposit", err)
	}
	return fault.New(fault.InsufficientFunds, fmt.Sprintf("this request may cost up to $%s and $%s is available: deposit, or set a lower max_tokens",
		short.Needed, max(short.Available, 0)), err)
}
