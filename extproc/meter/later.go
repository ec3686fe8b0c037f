package meter

import (
	"context"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// A deferred request has two bills. The first makes a reservation that stands until the request is answered, across restarts. The second, of the run
// that answers it, charges the standing reservation.

// Lasting is implemented by payers whose reservation can outlive the request's connection.
type Lasting interface {
	// ConvertToStandingHold converts the reservation to a standing one, which owner releases or charges later.
	ConvertToStandingHold(ctx context.Context, owner string) error
}

var (
	_ Lasting = (*prepaid)(nil)
	_ Lasting = postpaid{}
)

// ConvertToStandingHold implements Lasting.
func (p *prepaid) ConvertToStandingHold(ctx context.Context, owner string) error {
	if p.hold == nil {
		return nil
	}
	return p.books.ConvertToStandingHold(ctx, p.hold, owner)
}

// ConvertToStandingHold implements Lasting: nothing was reserved.
func (postpaid) ConvertToStandingHold(context.Context, string) error { return nil }

// ConvertToStandingHold ends the bill of a deferred request: its reservation becomes a standing hold of owner, and its input counts against the caller's
// allowance. A payer that must be present for the charge is refused.
func (b *Bill) ConvertToStandingHold(ctx context.Context, owner string, input int64) error {
	p, ok := b.payer.(Lasting)
	if !ok {
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: a request with a payment of its own cannot be deferred: use an API key")
	}
	if err := p.ConvertToStandingHold(ctx, owner); err != nil {
		return unpaid(err)
	}
	b.countAccepted(input)
	b.grant.Done(time.Now(), input, 0)
	b.shared.Done(time.Now(), 0)
	return nil
}

// PaidDeferred is PaidBy for the run that answers a deferred request. Usage counts against the caller's allowance, less the input that was counted
// when the request was accepted.
func (b *Bill) PaidDeferred(p policy.Principal, spread int) {
	b.accepted = true
	var payer Payer = postpaid{b.meter}
	if p.Prepaid {
		payer = &standing{prepaid{books: b.meter.Books, account: p.Account}}
	}
	b.PaidBy(p, payer, spread)
}

// standing is the payer with a request's standing reservation.
type standing struct{ prepaid }

// Admit admits every request: the money is reserved.
func (*standing) Admit(context.Context) error { return nil }

// Reserve reserves nothing more.
func (p *standing) Reserve(_ context.Context, _ string, amount policy.Micro) error {
	p.reserved = amount
	return nil
}

// ReserveNow is Reserve.
func (p *standing) ReserveNow(_ string, amount policy.Micro) bool {
	p.reserved = amount
	return true
}

// Settle takes the standing reservation and charges it.
func (p *standing) Settle(ctx context.Context, c ledger.Charge, owed bool) (ledger.Receipt, error) {
	if p.hold == nil && owed {
		h, err := p.books.TakeStandingHold(ctx, p.account, c.RequestID)
		if err != nil {
			return ledger.Receipt{}, err
		}
		p.hold = h
	}
	return p.prepaid.Settle(ctx, c, owed)
}
