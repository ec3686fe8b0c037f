// Package x402 is payment for single requests over HTTP: a caller without credentials gets the price, and a caller with a payment is served. It knows
// the protocol's headers, and the answer for each outcome of a payment; package till has the payments.
package x402

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
	"bardo.money/gateway/policy/pay/till"
)

// The protocol's headers. Those without a version are version 2's.
const (
	headerRequired  = "payment-required"
	headerPayment   = header.Payment
	headerPayment1  = header.Payment1
	headerResponse  = "payment-response"
	headerResponse1 = "x-payment-response"
)

// Counter returns payers of requests. Safe for concurrent use.
type Counter struct {
	till    *till.Till
	records Recorder
	o       Options
	payers  *lru.Cache[pay.Address, struct{}] // those that have paid: they have their own rate limit
	checks  chan struct{}
}

// Recorder books a request without a charge.
type Recorder interface {
	Record(c ledger.Charge) error
}

// Options of a counter.
type Options struct {
	SettleWait time.Duration // how long an answer that is not streamed waits for its payment's transfer
	Checks     int           // concurrent verifications of payments; zero means 64
}

var _ meter.Payments = (*Counter)(nil)

// New returns a counter.
func New(t *till.Till, r Recorder, o Options) *Counter {
	if o.Checks == 0 {
		o.Checks = 64
	}
	payers, _ := lru.New[pay.Address, struct{}](1 << 14) // fails for sizes below 1 only
	return &Counter{till: t, records: r, o: o, payers: payers, checks: make(chan struct{}, o.Checks)}
}

// Payer implements meter.Payments.
func (c *Counter) Payer(h header.List, s meter.Subject) (who policy.Principal, p meter.Payer, ok bool, err error) {
	version, text := 2, h.Get(headerPayment)
	if text == "" {
		version, text = 1, h.Get(headerPayment1)
	}
	if text == "" {
		return policy.Principal{}, nil, false, nil
	}
	payment, err := c.read(text, version)
	if r, refused := errors.AsType[*pay.Refusal](err); refused {
		return wallet(""), &quotePayer{c: c, subject: s, refusal: r}, true, nil
	}
	if err != nil {
		return policy.Principal{}, nil, false, fault.New(fault.InvalidRequest, "the payment cannot be read: "+err.Error(), nil)
	}
	var account policy.Account
	if c.payers.Contains(payment.From) && c.till.Chain.Signed(payment) {
		account = pay.Account(payment.From)
	}
	return wallet(account), &payer{c: c, subject: s, payment: payment}, true, nil
}

func (c *Counter) read(text string, version int) (*pay.Payment, error) {
	p, err := c.till.Terms.Parse(text, version)
	if err != nil {
		return nil, err
	}
	return p, c.till.Terms.Check(p, c.till.Now())
}

// wallet returns the principal of a wallet's request.
func wallet(a policy.Account) policy.Principal {
	return policy.Principal{Account: a, Name: string(a), Prepaid: true}
}

// Of implements meter.Payments.
func (c *Counter) Of(ctx context.Context, requestID string) (state []byte, ok bool, err error) {
	p, ok, err := c.till.Book.ByRequest(ctx, requestID)
	if err != nil || !ok {
		return nil, false, err
	}
	state, err = json.Marshal(p.View())
	return state, err == nil, err
}

// headerWallet names the payer: the wallet's credit lowers the price.
const headerWallet = "x-bardo-wallet"

// Quote implements meter.Payments.
func (c *Counter) Quote(h header.List, s meter.Subject) (policy.Principal, meter.Payer, error) {
	a := &quotePayer{c: c, subject: s}
	if text := h.Get(headerWallet); text != "" {
		payer, err := pay.ParseAddress(text)
		if err != nil {
			return policy.Principal{}, nil, fault.New(fault.InvalidRequest, "X-Bardo-Wallet is an address: "+err.Error(), nil)
		}
		a.wallet = &payer
	}
	return wallet(""), a, nil
}

// challenge refuses a request with its price, less a credit, which is negative for a wallet with a debt. The signed quote is the full price: a credit
// belongs to its wallet.
func (c *Counter) challenge(s meter.Subject, price, credit policy.Micro, refusal *pay.Refusal) error {
	t, e := c.till.Terms, s.Estimate()
	q := pay.Quote{Amount: t.Price(price), Digest: s.Digest(), Expires: c.till.Now().Add(t.QuoteTTL)}
	signed := c.till.Signer.Sign(q)
	whole := q.Amount
	q.Amount = max(whole-credit, t.MinPrice, 1)
	o := pay.Offer{
		Quote: q, Signed: signed,
		Resource:  pay.Resource{URL: e.URL, Description: "inference by " + string(e.Model), MimeType: header.JSON},
		Inference: pay.Inference{EstimatedInputTokens: e.InputTokens, EstimatedOutputTokens: e.OutputTokens, RoutedFrom: e.Model, CacheEligible: e.CacheEligible, Optimizations: append([]string{}, e.Optimizations...)},
		Price:     pay.PriceQuote{InputTokens: e.InputTokens, OutputTokens: e.OutputTokens, ProviderCost: e.ProviderCost, Margin: price - e.ProviderCost.Charge(0), SettlementFee: whole - price, Credit: max(whole-q.Amount, 0), Owed: max(q.Amount-whole, 0), Total: q.Amount},
	}
	public := "this request must be paid for first"
	o.Facilitator, o.UpTo = c.till.Chain.UpTo()
	o.UpTo = o.UpTo && !c.till.SettlesFirst(q.Amount) && credit >= 0
	if refusal != nil {
		o.Reason, public = refusal.Reason, "the payment is not taken: "+refusal.Detail
	}
	o.Detail = public
	f := fault.New(fault.PaymentRequired, public, &meter.Challenge{Body: t.Body(&o), Header: header.List{{Name: headerRequired, Value: t.Required(&o)}, {Name: "cache-control", Value: "no-store"}}})
	if o.Reason == pay.ReasonAllowance {
		f.Status = http.StatusPreconditionFailed // as the protocol requires: another payment would not help
	}
	return f
}

// quotePayer is the payer of a request without a payment.
type quotePayer struct {
	c       *Counter
	subject meter.Subject
	refusal *pay.Refusal // why a payment was not accepted; nil: there was none
	wallet  *pay.Address // the payer; nil if not stated
}

var _ meter.PerRequest = (*quotePayer)(nil)

func (*quotePayer) Admit(context.Context) error { return nil }

// Immediate implements meter.Payer: a wallet's credit must be read.
func (a *quotePayer) Immediate() bool { return a.wallet == nil }

func (a *quotePayer) Reserve(ctx context.Context, _ string, amount policy.Micro) (err error) {
	var credit policy.Micro
	if a.wallet != nil {
		if credit, err = a.c.till.Credit(ctx, *a.wallet); err != nil {
			return fault.New(fault.Unavailable, "the wallet's credit cannot be read at the moment", err)
		}
	}
	return a.c.challenge(a.subject, amount, credit, a.refusal)
}

func (*quotePayer) ReserveNow(string, policy.Micro) bool { return false }

func (a *quotePayer) Settle(_ context.Context, c ledger.Charge, _ bool) (ledger.Receipt, error) {
	return ledger.Receipt{Charged: c.Amount}, a.c.records.Record(c)
}

func (*quotePayer) Balance() (left policy.Micro, known bool) { return 0, false }
func (*quotePayer) ReadBalance(context.Context) error        { return nil }
func (*quotePayer) Limit() (maxCost policy.Micro, ok bool)   { return 0, true }
func (*quotePayer) Headers(h header.List) header.List        { return h }
func (*quotePayer) Release()                                 {}
func (*quotePayer) Account() policy.Account                  { return "" }
func (*quotePayer) State() string                            { return "" }

// payer is the payer of a request with a payment.
type payer struct {
	c       *Counter
	subject meter.Subject
	payment *pay.Payment

	row     till.Taken // set once it is reserved
	settled bool
	balance policy.Micro
	known   bool
	state   book.Payment // as reported to the client
}

var _ meter.PerRequest = (*payer)(nil)

func (*payer) Admit(context.Context) error { return nil }

// Immediate implements meter.Payer: the chain must be queried.
func (*payer) Immediate() bool { return false }

// Reserve implements meter.Payer. The first call takes the payment. Later amounts are covered up to the payment: generation stops there.
func (p *payer) Reserve(ctx context.Context, requestID string, amount policy.Micro) error {
	if p.row.ID != 0 {
		return nil
	}
	done, err := p.c.acquireSlot(ctx)
	if err != nil {
		return err
	}
	defer done()
	row, err := p.c.till.Take(ctx, p.payment, p.subject.Digest(), p.c.till.Terms.Price(amount), requestID)
	if err != nil {
		return p.refuse(ctx, err, &row.Payment, amount)
	}
	p.row, p.state = row, row.Payment
	p.c.payers.Add(p.payment.From, struct{}{})
	return nil
}

// maxVerifyWait is the maximum time for which a payment waits for the verification of others.
const maxVerifyWait = 20 * time.Second

// acquireSlot waits for a free verification slot.
func (c *Counter) acquireSlot(ctx context.Context) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, maxVerifyWait)
	defer cancel()
	select {
	case c.checks <- struct{}{}:
		return func() { <-c.checks }, nil
	case <-ctx.Done():
	}
	f := fault.New(fault.Overloaded, "too many payments are being verified: nothing was charged, and the same payment can be sent again", ctx.Err())
	f.RetryAfter = time.Second
	return nil, f
}

// refuse returns the answer to a payment that cannot be accepted. A payment that was used, or may have been, is never answered with a price.
func (p *payer) refuse(ctx context.Context, err error, known *book.Payment, amount policy.Micro) error {
	if r, ok := errors.AsType[*pay.Refusal](err); ok {
		return p.refuseBy(ctx, r, amount)
	}
	switch {
	case errors.Is(err, book.ErrInUse), errors.Is(err, book.ErrSpent):
		p.state = *known
		return fault.New(fault.PaymentReplayed, err.Error()+": a payment pays for one request", &meter.Challenge{Header: p.Headers(nil)})
	case errors.Is(err, till.ErrUnsettled):
		p.state = *known
		f := fault.New(fault.Unavailable, "the payment is being settled, and the request was not served: do not pay again. When the payment has arrived, it is credit of the wallet, less what that "+
			"owed for earlier payments; a request with X-Bardo-Wallet shows that amount", &meter.Challenge{Header: p.Headers(nil)})
		f.Final = true
		return f
	case errors.Is(err, context.Canceled):
		return err
	}
	f := fault.New(fault.Unavailable, "payments cannot be verified at the moment: nothing was charged, and the same payment can be sent again", err)
	f.RetryAfter = 2 * time.Second
	return f
}

func (p *payer) refuseBy(ctx context.Context, r *pay.Refusal, amount policy.Micro) error {
	switch r.Reason {
	case pay.ReasonExposure, pay.ReasonLosses:
		f := fault.New(fault.RateLimited, r.Detail, r)
		f.RetryAfter = cmp.Or(r.RetryAfter, 5*time.Second)
		return f
	case pay.ReasonBlocked:
		return fault.New(fault.PaymentRequired, r.Detail, r)
	}
	owed, err := p.c.till.Owed(ctx, p.payment.From)
	if err != nil {
		return p.refuse(ctx, err, nil, amount)
	}
	return p.c.challenge(p.subject, amount, -owed, r)
}

// ReserveNow implements meter.Payer.
func (p *payer) ReserveNow(string, policy.Micro) bool { return p.row.ID != 0 }

// Settle implements meter.Payer: the request's cost is booked, and its payment is settled; without a cost the payment is released.
func (p *payer) Settle(ctx context.Context, c ledger.Charge, owed bool) (r ledger.Receipt, err error) {
	if p.row.ID == 0 || !owed || c.Amount == 0 {
		if err := p.release(); err != nil {
			return ledger.Receipt{}, err
		}
		return ledger.Receipt{Charged: c.Amount}, p.c.records.Record(c)
	}
	if r, err = p.c.till.Served(ctx, &p.row, c); err != nil {
		return ledger.Receipt{}, err
	}
	p.settled, p.balance, p.known = true, r.Balance, true
	p.state.Service, p.state.Captured = book.Served, p.row.Captured
	if !p.subject.Streams() {
		p.await(ctx)
	}
	return r, nil
}

// await waits for the transfer, so that the answer can state its transaction.
func (p *payer) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.c.o.SettleWait)
	defer cancel()
	if state, err := p.c.till.Await(ctx, p.row.ID); err == nil {
		p.state = state
	}
}

// release releases the payment. It may be called more than once.
func (p *payer) release() error {
	if p.row.ID == 0 || p.settled {
		return nil
	}
	p.settled = true
	p.state.Service = book.Released
	return p.c.till.Release(context.Background(), &p.row)
}

func (p *payer) Balance() (left policy.Micro, known bool) { return p.balance, p.known }
func (*payer) ReadBalance(context.Context) error          { return nil }

// Limit implements meter.Payer: a request costs at most the payment, less the payer's debt, plus the reserved part of the payer's credit.
func (p *payer) Limit() (maxCost policy.Micro, ok bool) {
	return max(p.payment.Value+p.row.Credit-p.row.Owed-p.c.till.Terms.Fee, 0), true
}

// Headers implements meter.Payer.
func (p *payer) Headers(h header.List) header.List {
	if p.known {
		h = append(h, header.Field{Name: "x-bardo-balance", Value: p.balance.String()})
	}
	if p.state.ID == 0 || p.state.Service == book.Released && p.state.Settlement == book.None {
		return h
	}
	v := p.settlement().Encode()
	return append(h, header.Field{Name: headerResponse, Value: v}, header.Field{Name: headerResponse1, Value: v})
}

// settlement returns the state of the payment in the protocol's form.
func (p *payer) settlement() pay.Settled {
	s := pay.Settled{Network: p.c.till.Terms.Network.Name, Payer: p.state.From.String()}
	if p.payment.Version == 2 {
		s.Network = p.c.till.Terms.Network.String()
	}
	if p.state.UpTo {
		s.Amount = strconv.FormatInt(int64(p.state.Captured), 10)
	}
	if p.state.Tx != (pay.Word{}) {
		s.Transaction = p.state.Tx.String()
	}
	switch p.state.Settlement {
	case book.Confirmed, book.Final:
		s.Success = true
	case book.Failed:
		s.ErrorReason = pay.ReasonTransfer
	case book.None, book.Settling:
		s.ErrorReason = pay.ReasonPending
	}
	return s
}

func (p *payer) Release() { _ = p.release() } // a failed release is repeated by the till

// State implements meter.PerRequest.
func (p *payer) State() string {
	switch {
	case p.state.ID == 0:
		return ""
	case p.state.Settlement == book.Confirmed || p.state.Settlement == book.Final:
		return "settled"
	case p.state.Settlement == book.Failed:
		return "failed"
	case p.state.Service == book.Released:
		return "released"
	}
	return "pending"
}

func (p *payer) Account() policy.Account { return pay.Account(p.payment.From) }
