// Package reconcile checks payments against the ledger: that each was credited once, its request charged once, and what never arrived taken back; and that
// the ledger has no credit without a payment. It changes neither, and may run beside the gateways that do: each payment is read before the ledger is, and
// what is wrong with it is looked at again before it is reported, since a step may lie between the two reads, or in the charge log of another machine.
package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

// Run checks all payments of a store, and waits as long as the report may for what it cannot explain. The error means that it could not be read.
func Run(ctx context.Context, b *book.Book, l *ledger.Ledger, r *ledger.Report) error {
	return run(ctx, b, l, r, func() {})
}

// run calls between after its first look.
func run(ctx context.Context, b *book.Book, l *ledger.Ledger, r *ledger.Report, between func()) error {
	c := &check{book: b, ledger: l, known: map[string]bool{}, strange: map[string]ledger.Posting{}}
	if err := c.payments(ctx); err != nil {
		return fmt.Errorf("payments: %w", err)
	}
	if err := c.credits(ctx); err != nil {
		return fmt.Errorf("credits of payments: %w", err)
	}
	between()
	left, err := r.Settle(ctx, c.found, c.again)
	if err != nil {
		return fmt.Errorf("payments, looked at again: %w", err)
	}
	for _, name := range []string{Credited, Charged, Taken, Backed} {
		r.AddFindings(name, left)
	}
	return nil
}

// check is one run.
type check struct {
	book    *book.Book
	ledger  *ledger.Ledger
	known   map[string]bool           // the idempotency keys of the credits of payments that were looked at
	strange map[string]ledger.Posting // credits without a payment, by idempotency key
	found   []ledger.Finding
}

// most is how many findings are kept: more are not on their way at any moment.
const most = 10_000

// find notes what is wrong with a payment or a credit, whose reference is the subject.
func (c *check) find(name, subject, format string, args ...any) {
	if len(c.found) == most {
		return
	}
	c.found = append(c.found, ledger.Finding{Check: name, Subject: subject, Text: fmt.Sprintf(format, args...)})
}

// payments looks at every payment.
func (c *check) payments(ctx context.Context) error {
	var last int64
	for {
		list, err := c.book.Page(ctx, last, page)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := c.these(ctx, list); err != nil {
			return err
		}
		last = list[len(list)-1].ID
	}
}

// again looks at the payments and credits of some findings, and at no others.
func (c *check) again(ctx context.Context, before []ledger.Finding) ([]ledger.Finding, error) {
	c.found = nil
	var list []book.Payment
	seen := map[string]bool{}
	for _, f := range before {
		if d, ok := c.strange[f.Subject]; ok {
			if err := c.backed(ctx, &d); err != nil {
				return nil, err
			}
			continue
		}
		if seen[f.Subject] {
			continue
		}
		seen[f.Subject] = true
		p, ok, err := c.book.ByReference(ctx, f.Subject)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, p)
		}
	}
	for few := range slices.Chunk(list, page) {
		if err := c.these(ctx, few); err != nil {
			return nil, err
		}
	}
	return c.found, nil
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
		c.known[ledger.DepositKey(account, p.Reference())] = true
	}
	posted, err := c.ledger.Postings(ctx, keys)
	if err != nil {
		return err
	}
	for i := range list {
		c.one(&list[i], posted, unwritten[list[i].ID])
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

func (c *check) one(p *book.Payment, posted map[string]ledger.Posting, unwritten bool) {
	account := pay.Account(p.From)
	credit, credited := posted[ledger.DepositKey(account, p.Reference())]
	lost, taken := posted[ledger.LossKey(account, p.Reference())]
	if p.Service != book.Served {
		if credited || taken {
			c.find(Credited, p.Reference(), "payment %d of %s is %s, and the ledger has %s USD of it", p.ID, account, p.Service, credit.Deposits)
		}
		return
	}
	c.credit(p, account, credit, credited)
	c.charge(p, account, posted[ledger.ChargeKey(p.Request)])
	c.loss(p, account, lost, taken, unwritten)
}

// credit compares what a payment brought.
func (c *check) credit(p *book.Payment, account policy.Account, credit ledger.Posting, credited bool) {
	switch {
	case !credited && p.Booked:
		c.find(Credited, p.Reference(), "payment %d of %s brought %s USD, which the ledger does not have", p.ID, account, p.Captured)
	case credited && (credit.Deposits != p.Captured || credit.Revenue != p.Fee || !isOf(&credit, account)):
		c.find(Credited, p.Reference(), "payment %d of %s brought %s USD with a fee of %s, the ledger has %s with %s for %q", p.ID, account, p.Captured, p.Fee, credit.Deposits, credit.Revenue, credit.Account)
	}
}

// charge compares what the request of a payment cost.
func (c *check) charge(p *book.Payment, account policy.Account, charge ledger.Posting) {
	switch {
	case charge.Key == "" && p.Booked && p.Charge > 0:
		c.find(Charged, p.Reference(), "request %s of payment %d cost %s USD, which the ledger has not charged", p.Request, p.ID, p.Charge)
	case charge.Key != "" && (p.Charge > 0 && charge.Revenue != p.Charge || !isOf(&charge, account)): // or the cost was not known when it was served
		c.find(Charged, p.Reference(), "request %s of payment %d cost %s USD of %s, the ledger charged %s of %q", p.Request, p.ID, p.Charge, account, charge.Revenue, charge.Account)
	}
}

// isOf reports whether a journal is of an account. One that left it as it was, as a payment of the fee alone does, has no line of it.
func isOf(d *ledger.Posting, account policy.Account) bool {
	return d.Account == account || d.Account == ""
}

// loss compares what never arrived with what was taken back.
func (c *check) loss(p *book.Payment, account policy.Account, lost ledger.Posting, taken, unwritten bool) {
	failed := p.Settlement == book.Failed
	switch {
	case failed && !unwritten && p.Booked && !taken:
		c.find(Taken, p.Reference(), "payment %d of %s never arrived, and its %s USD are not taken back", p.ID, account, p.Captured)
	case taken && !failed:
		c.find(Taken, p.Reference(), "payment %d of %s is %s, and %s USD of it were taken back", p.ID, account, p.Settlement, -lost.Deposits)
	case taken && -lost.Deposits != p.Captured:
		c.find(Taken, p.Reference(), "payment %d of %s brought %s USD, and %s were taken back", p.ID, account, p.Captured, -lost.Deposits)
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

// backed looks whether a credit has a payment. One that was taken since the payments were read is looked at as they were.
func (c *check) backed(ctx context.Context, d *ledger.Posting) error {
	if d.Deposits < 0 { // taken back: it is compared with its payment
		return nil
	}
	if c.known[d.Key] {
		return nil
	}
	_, reference, _ := strings.Cut(d.Key, ":"+book.ReferencePrefix)
	p, ok, err := c.book.ByReference(ctx, book.ReferencePrefix+reference)
	if err != nil {
		return err
	}
	if ok && d.Key == ledger.DepositKey(pay.Account(p.From), p.Reference()) {
		return c.these(ctx, []book.Payment{p})
	}
	c.strange[d.Key] = *d
	c.find(Backed, d.Key, "journal %d brought %s USD to %q, and there is no such payment", d.Journal, d.Deposits, d.Account)
	return nil
}
