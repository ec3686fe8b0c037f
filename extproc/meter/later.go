package meter

import (
	"context"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// A deferred request has two bills. The first reserves, and what it reserved stands until the request is answered, over restarts. The second, of the
// run that answers it, charges what stands.

// Lasting is implemented by payers whose reservation can outlive the request's connection.
type Lasting interface {
	// Stand makes the reservation a standing one, which owner releases or charges later.
	Stand(ctx context.Context, owner string) error
}

var (
	_ Lasting = (*prepaid)(nil)
	_ Lasting = postpaid{}
)

// Stand implements Lasting.
func (p *prepaid) Stand(ctx context.Context, owner string) error {
	if p.hold == nil {
		return nil
	}
	return p.books.Stand(ctx, p.hold, owner)
}

// Stand implements Lasting: nothing was reserved.
func (postpaid) Stand(context.Context, string) error { return nil }

// Stand ends the bill of a request that is answered later: what it reserved stands for owner, and its input counts against the caller's allowance. A
// payer who has to be present is refused.
func (b *Bill) Stand(ctx context.Context, owner string, input int64) error {
	p, ok := b.payer.(Lasting)
	if !ok {
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Defer: a request that is paid for by itself cannot be answered later: use an API key")
	}
	if err := p.Stand(ctx, owner); err != nil {
		return unpaid(err)
	}
	b.grant.Done(time.Now(), input, 0)
	b.shared.Done(time.Now(), 0)
	return nil
}

// PaidLater is PaidBy for the run that answers a deferred request. What the request used counts against its caller's allowance beyond the input that counted
// when it was accepted.
func (b *Bill) PaidLater(p policy.Principal, spread int) {
	b.later = true
	var payer Payer = postpaid{b.meter}
	if p.Prepaid {
		payer = &standing{prepaid{books: b.meter.Books, account: p.Account}}
	}
	b.PaidBy(p, payer, spread)
}

// standing is the balance of a key with what stands for a request.
type standing struct{ prepaid }

// Admit refuses nobody: the money is there.
func (*standing) Admit(context.Context) error { return nil }

// Reserve reserves nothing more.
func (p *standing) Reserve(_ context.Context, _ string, most policy.Micro) error {
	p.reserved = most
	return nil
}

// ReserveNow is Reserve.
func (p *standing) ReserveNow(_ string, most policy.Micro) bool {
	p.reserved = most
	return true
}

// Settle takes what stands, and charges it.
func (p *standing) Settle(ctx context.Context, c ledger.Charge, owed bool) (ledger.Receipt, error) {
	if p.hold == nil && owed {
		h, err := p.books.TakeStanding(ctx, p.account, c.RequestID)
		if err != nil {
			return ledger.Receipt{}, err
		}
		p.hold = h
	}
	return p.prepaid.Settle(ctx, c, owed)
}
