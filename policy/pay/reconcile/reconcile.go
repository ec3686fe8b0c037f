// Package reconcile checks payments against the ledger: that each was credited once, its request charged once, and what never arrived taken back; and that
// the ledger has no credit without a payment. It changes neither, and may run beside the gateways that do: each payment is read before the ledger is, and
// again before it is reported.
package reconcile

import (
	"context"
	"fmt"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// The checks, which Run adds to a report.
const (
	Credited = "every payment is credited once"
	Charged  = "every paid request is charged once"
	Taken    = "what never arrived is taken back"
	Backed   = "every credit has its payment"
)

// page is how many payments, or journals, are looked at together.
const page = 500

// Run checks all payments of a store. The error means that it could not be read.
func Run(ctx context.Context, b *book.Book, l *ledger.Ledger, r *ledger.Report) error {
	c := &check{book: b, ledger: l, known: map[string]int64{}, offending: map[string][]string{}}
	if err := c.payments(ctx); err != nil {
		return fmt.Errorf("payments: %w", err)
	}
	if err := c.credits(ctx); err != nil {
		return fmt.Errorf("credits of payments: %w", err)
	}
	for _, name := range []string{Credited, Charged, Taken, Backed} {
		r.Add(name, c.offending[name])
	}
	return nil
}

// check is one run.
type check struct {
	book      *book.Book
	ledger    *ledger.Ledger
	last      int64            // the latest payment that was looked at
	known     map[string]int64 // payments by the idempotency keys of their credits
	offending map[string][]string
}

func (c *check) offend(name, format string, args ...any) {
	const most = 100
	if len(c.offending[name]) < most {
		c.offending[name] = append(c.offending[name], fmt.Sprintf(format, args...))
	}
}

// payments looks at every payment that is behind the latest one.
func (c *check) payments(ctx context.Context) error {
	for {
		list, err := c.book.Page(ctx, c.last, page)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := c.these(ctx, list); err != nil {
			return err
		}
		c.last = list[len(list)-1].ID
	}
}

// these compares some payments with the ledger, which has at least what it had when they were read.
func (c *check) these(ctx context.Context, list []book.Payment) error {
	unwritten, err := c.unwritten(ctx)
	if err != nil {
		return err
	}
	keys := make([]string, 0, 3*len(list))
	for i := range list {
		p := &list[i]
		account := pay.Account(p.From)
		keys = append(keys, ledger.DepositKey(account, p.Reference()), ledger.LossKey(account, p.Reference()), ledger.ChargeKey(p.Request))
		c.known[ledger.DepositKey(account, p.Reference())] = p.ID
	}
	posted, err := c.ledger.Postings(ctx, keys)
	if err != nil {
		return err
	}
	for i := range list {
		if err := c.one(ctx, &list[i], posted, unwritten[list[i].ID]); err != nil {
			return err
		}
	}
	return nil
}

// unwritten are the failed payments whose loss the ledger need not have yet.
func (c *check) unwritten(ctx context.Context) (map[int64]bool, error) {
	list, err := c.book.Unwritten(ctx)
	ids := make(map[int64]bool, len(list))
	for i := range list {
		ids[list[i].ID] = true
	}
	return ids, err
}

func (c *check) one(ctx context.Context, p *book.Payment, posted map[string]ledger.Posting, unwritten bool) error {
	account := pay.Account(p.From)
	credit, credited := posted[ledger.DepositKey(account, p.Reference())]
	lost, taken := posted[ledger.LossKey(account, p.Reference())]
	if p.Service != book.Served && (credited || taken) { // it may have been served since
		now, err := c.book.ByID(ctx, p.ID)
		if err != nil {
			return err
		}
		if *p = now; p.Service != book.Served {
			c.offend(Credited, "payment %d of %s is %s, and the ledger has %s USD of it", p.ID, account, p.Service, credit.Deposits)
			return nil
		}
	}
	if p.Service != book.Served {
		return nil
	}
	c.credit(p, account, credit, credited)
	c.charge(p, account, posted[ledger.ChargeKey(p.Request)])
	c.loss(p, account, lost, taken, unwritten)
	return nil
}

// credit compares what a payment brought.
func (c *check) credit(p *book.Payment, account policy.Account, credit ledger.Posting, credited bool) {
	switch {
	case !credited && p.Booked:
		c.offend(Credited, "payment %d of %s brought %s USD, which the ledger does not have", p.ID, account, p.Captured)
	case credited && (credit.Deposits != p.Captured || credit.Revenue != p.Fee || credit.Account != account):
		c.offend(Credited, "payment %d of %s brought %s USD with a fee of %s, the ledger has %s with %s for %q", p.ID, account, p.Captured, p.Fee, credit.Deposits, credit.Revenue, credit.Account)
	}
}

// charge compares what the request of a payment cost.
func (c *check) charge(p *book.Payment, account policy.Account, charge ledger.Posting) {
	switch {
	case charge.Key == "" && p.Booked && p.Charge > 0:
		c.offend(Charged, "request %s of payment %d cost %s USD, which the ledger has not charged", p.Request, p.ID, p.Charge)
	case charge.Key != "" && (p.Charge > 0 && charge.Revenue != p.Charge || charge.Account != account): // or the cost was not known when it was served
		c.offend(Charged, "request %s of payment %d cost %s USD of %s, the ledger charged %s of %q", p.Request, p.ID, p.Charge, account, charge.Revenue, charge.Account)
	}
}

// loss compares what never arrived with what was taken back.
func (c *check) loss(p *book.Payment, account policy.Account, lost ledger.Posting, taken, unwritten bool) {
	failed := p.Settlement == book.Failed
	switch {
	case failed && !unwritten && p.Booked && !taken:
		c.offend(Taken, "payment %d of %s never arrived, and its %s USD are not taken back", p.ID, account, p.Captured)
	case taken && !failed:
		c.offend(Taken, "payment %d of %s is %s, and %s USD of it were taken back", p.ID, account, p.Settlement, -lost.Deposits)
	case taken && -lost.Deposits != p.Captured:
		c.offend(Taken, "payment %d of %s brought %s USD, and %s were taken back", p.ID, account, p.Captured, -lost.Deposits)
	}
}

// credits looks at every credit of the ledger that names a payment.
func (c *check) credits(ctx context.Context) error {
	var after int64
	for {
		list, err := c.ledger.DepositsOf(ctx, book.ReferencePrefix, after, page)
		if err != nil || len(list) == 0 {
			return err
		}
		after = list[len(list)-1].Journal
		for i := range list {
			if err := c.backed(ctx, &list[i]); err != nil {
				return err
			}
		}
	}
}

// backed looks whether a credit has a payment. One that was taken meanwhile is looked at as the others were.
func (c *check) backed(ctx context.Context, d *ledger.Posting) error {
	if d.Deposits < 0 { // taken back: it is compared with its payment
		return nil
	}
	if _, ok := c.known[d.Key]; ok {
		return nil
	}
	if err := c.payments(ctx); err != nil {
		return err
	}
	if _, ok := c.known[d.Key]; !ok {
		c.offend(Backed, "journal %d brought %s USD to %q, and there is no such payment", d.Journal, d.Deposits, d.Account)
	}
	return nil
}
