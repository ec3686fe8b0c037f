package meter

import (
	"context"
	"errors"
	"fmt"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// Payer pays for one request. Its errors are faults, or the store's. A payer that wants something of the client first, such as a payment, refuses
// with a Challenge. Not safe for concurrent use.
type Payer interface {
	// Admit refuses a request that nothing is left for. It is for before the request's body is read.
	Admit(ctx context.Context) error
	// Immediate reports whether the payer most likely admits, reserves and settles without waiting.
	Immediate() bool
	// Reserve makes sure of the most that the request may cost, or refuses it. It replaces an earlier reservation of another amount.
	Reserve(ctx context.Context, requestID string, most policy.Micro) error
	// ReserveNow is Reserve without waiting; false leaves everything as it was.
	ReserveNow(requestID string, most policy.Micro) bool
	// Settle takes the charge, and returns when that is durable, or booked where no balance pays. owed tells that a provider was called:
	// otherwise what was reserved is given back, and the charge is only a note of how the request ended. It does not end with the context.
	Settle(ctx context.Context, c ledger.Charge, owed bool) (ledger.Receipt, error)
	// Balance is what is left, once that is known. known is false for who has no balance.
	Balance() (left policy.Micro, known bool)
	// ReadBalance finds out what is left for a request that was not charged.
	ReadBalance(ctx context.Context) error
	// Limit is the running cost at which the request's generation is stopped; ok is false where only the reservation limits it.
	Limit() (most policy.Micro, ok bool)
	// Headers adds what the payer has to say to the headers of an answer.
	Headers(h header.List) header.List
	// Release gives back what is still reserved. It may be called more than once.
	Release()
}

// Challenge is the private cause of a fault of kind PaymentRequired: what a client must do first, in the format of the way of payment.
type Challenge struct {
	Body   []byte // of the answer, in place of the dialect's error; nil for that one
	Header header.List
}

func (*Challenge) Error() string { return "the payer asks for something first" }

// Fault refuses a request with the challenge.
func (c *Challenge) Fault() *fault.Fault {
	return fault.New(fault.PaymentRequired, "this request must be paid for first", c)
}

// Books are where prepaid balances are and charges are booked. *ledger.Ledger implements it. Safe for concurrent use.
type Books interface {
	Solvent(ctx context.Context, account policy.Account) error
	Balance(ctx context.Context, account policy.Account) (ledger.Balance, error)
	// Reserve sets an amount of a prepaid account's money aside. The error is an *ledger.InsufficientError where it has too little.
	Reserve(ctx context.Context, account policy.Account, requestID string, amount policy.Micro) (*ledger.Hold, error)
	// ReserveNow is Reserve without waiting; ok is false where that is not possible.
	ReserveNow(account policy.Account, requestID string, amount policy.Micro) (h *ledger.Hold, ok bool)
	// Immediate reports whether an account's requests most likely need not wait.
	Immediate(account policy.Account) bool
	// Capture charges a reservation, which ends, and returns when that is durable. It does not end with the context.
	Capture(ctx context.Context, h *ledger.Hold, c ledger.Charge) (ledger.Receipt, error)
	// Record books a charge that no balance pays. It does not wait for the store.
	Record(c ledger.Charge) error
	// Release ends a reservation without a charge. A nil one, and one that has ended, are left alone.
	Release(h *ledger.Hold)
	// Stand makes a reservation one that outlives the gateway, and ends it.
	Stand(ctx context.Context, h *ledger.Hold, owner string) error
	// TakeStanding makes it this gateway's again; one of nothing where there is none.
	TakeStanding(ctx context.Context, account policy.Account, requestID string) (*ledger.Hold, error)
}

// PayerOf is who pays for a principal's request: the balance of its key, or nobody yet.
func (m *Meter) PayerOf(p *policy.Principal) Payer {
	if p.Prepaid {
		return &prepaid{books: m.Books, account: p.Account}
	}
	return postpaid{m}
}

// postpaid are callers without a balance: keys that are billed later, and callers without a key. Charges are booked.
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
func (postpaid) Limit() (most policy.Micro, ok bool)      { return 0, false }
func (postpaid) Headers(h header.List) header.List        { return h }
func (postpaid) Release()                                 {}

// prepaid is the balance of a key.
type prepaid struct {
	books    Books
	account  policy.Account
	hold     *ledger.Hold
	reserved policy.Micro // as hold has it
	balance  policy.Micro
	known    bool
	kept     policy.Micro // of the balance, for other requests than this one
}

func (p *prepaid) Admit(ctx context.Context) error { return unpaid(p.books.Solvent(ctx, p.account)) }

func (p *prepaid) Immediate() bool { return p.books.Immediate(p.account) }

func (p *prepaid) Reserve(ctx context.Context, requestID string, most policy.Micro) (err error) {
	if p.hold != nil && p.reserved == most {
		return nil
	}
	p.dropHold()
	p.hold, err = p.books.Reserve(ctx, p.account, requestID, most)
	p.reserved = most
	if err != nil {
		return unpaid(err)
	}
	return p.keep(ctx, most)
}

// keep gives a reservation back that takes of what is kept. It is made before the balance is read, so that requests at the same time see each other's.
func (p *prepaid) keep(ctx context.Context, most policy.Micro) error {
	if p.kept == 0 || most == 0 {
		return nil
	}
	left, err := p.left(ctx)
	if err == nil && left >= p.kept {
		return nil
	}
	p.books.Release(p.hold)
	p.hold = nil
	if err != nil {
		return err
	}
	return fault.New(fault.InsufficientFunds, fmt.Sprintf("this request may cost up to $%s and $%s is available: $%s of the balance is kept for risk, operator and death",
		most, max(left.Plus(most)-p.kept, 0), p.kept), errKept)
}

// left is what is available of the balance, and never too much: what requests hold is read before the charges are, so that one that is charged in between counts
// twice, rather than not at all.
func (p *prepaid) left(ctx context.Context) (policy.Micro, error) {
	before, err := p.books.Balance(ctx, p.account)
	if err != nil {
		return 0, err
	}
	b, err := p.books.Balance(ctx, p.account)
	return b.Available + b.Held - before.Held, err
}

// errKept is the cause of a refusal for what is kept of a balance.
var errKept = errors.New("a part of the balance is kept for critical requests")

func (p *prepaid) ReserveNow(requestID string, most policy.Micro) (ok bool) {
	if p.kept > 0 && most > 0 { // the balance has to be read
		return false
	}
	h, ok := p.books.ReserveNow(p.account, requestID, most)
	if ok {
		p.dropHold()
		p.hold, p.reserved = h, most
	}
	return ok
}

// dropHold gives back an earlier reservation.
func (p *prepaid) dropHold() {
	if p.hold != nil {
		p.books.Release(p.hold)
	}
}

func (p *prepaid) Settle(ctx context.Context, c ledger.Charge, owed bool) (r ledger.Receipt, err error) {
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

func (*prepaid) Limit() (most policy.Micro, ok bool) { return 0, false }

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

// unpaid tells a caller that its key cannot pay, and how much is missing.
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
		return fault.New(fault.InsufficientFunds, "nothing is left of this key's balance: deposit", err)
	}
	return fault.New(fault.InsufficientFunds, fmt.Sprintf("this request may cost up to $%s and $%s is available: deposit, or set a lower max_tokens",
		short.Needed, max(short.Available, 0)), err)
}
