// Package reconcile compares payments with the ledger: each was credited once, its request was charged once, and failed payments were taken back; and the ledger
// has no credit without a payment. It only reads, and may run beside gateways: each payment is read before the ledger, and findings are checked again before they
// are reported, since a gateway may have taken a step between the two reads, or have it in its charge log.
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

// page is the number of payments, or journals, that are read together.
const page = 500

// Run checks all payments of a store. Unexplained findings are checked again for as long as the report allows. An error means that the payments could not be
// read.
func Run(ctx context.Context, b *book.Book, l *ledger.Ledger, r *ledger.Report) error {
	return run(ctx, b, l, r, func() {})
}

// run calls between after the first check, for tests.
func run(ctx context.Context, b *book.Book, l *ledger.Ledger, r *ledger.Report, between func()) error {
	c := &check{book: b, ledger: l, checked: map[string]bool{}, unbacked: map[string]ledger.Posting{}}
	if err := c.payments(ctx); err != nil {
		return fmt.Errorf("payments: %w", err)
	}
	if err := c.credits(ctx); err != nil {
		return fmt.Errorf("credits of payments: %w", err)
	}
	between()
	left, err := r.Settle(ctx, c.found, c.recheck)
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
	book     *book.Book
	ledger   *ledger.Ledger
	checked  map[string]bool           // idempotency keys of the credits of checked payments
	unbacked map[string]ledger.Posting // credits without a payment, by idempotency key
	found    []ledger.Finding
}

// maxFindings is the maximum number of findings: steps of gateways that are under way cause fewer.
const maxFindings = 10_000

// find adds a finding about the payment or credit with the reference subject.
func (c *check) find(name, subject, format string, args ...any) {
	if len(c.found) == maxFindings {
		return
	}
	c.found = append(c.found, ledger.Finding{Check: name, Subject: subject, Text: fmt.Sprintf(format, args...)})
}

// payments checks every payment.
func (c *check) payments(ctx context.Context) error {
	var last int64
	for {
		list, err := c.book.Page(ctx, last, page)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := c.comparePayments(ctx, list); err != nil {
			return err
		}
		last = list[len(list)-1].ID
	}
}

// recheck checks only the payments and credits of some findings.
func (c *check) recheck(ctx context.Context, before []ledger.Finding) ([]ledger.Finding, error) {
	c.found = nil
	var list []book.Payment
	seen := map[string]bool{}
	for _, f := range before {
		if d, ok := c.unbacked[f.Subject]; ok {
			if err := c.compareCredit(ctx, &d); err != nil {
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
		if err := c.comparePayments(ctx, few); err != nil {
			return nil, err
		}
	}
	return c.found, nil
}

// comparePayments compares payments with the ledger, which must be read after them.
func (c *check) comparePayments(ctx context.Context, list []book.Payment) error {
	unwritten, err := c.notTakenBack(ctx)
	if err != nil {
		return err
	}
	keys := make([]string, 0, 3*len(list))
	for i := range list {
		p := &list[i]
		account := pay.Account(p.From)
		keys = append(keys, ledger.DepositKey(account, p.Reference()), ledger.LossKey(account, p.Reference()), ledger.ChargeKey(p.Request))
		c.checked[ledger.DepositKey(account, p.Reference())] = true
	}
	posted, err := c.ledger.Postings(ctx, keys)
	if err != nil {
		return err
	}
	for i := range list {
		c.comparePayment(&list[i], posted, unwritten[list[i].ID])
	}
	return nil
}

// notTakenBack returns the failed payments that need not be taken back in the ledger yet.
func (c *check) notTakenBack(ctx context.Context) (map[int64]bool, error) {
	list, err := c.book.FailedNotTakenBack(ctx)
	ids := make(map[int64]bool, len(list))
	for i := range list {
		ids[list[i].ID] = true
	}
	return ids, err
}

func (c *check) comparePayment(p *book.Payment, posted map[string]ledger.Posting, unwritten bool) {
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

// credit compares the credit of a payment.
func (c *check) credit(p *book.Payment, account policy.Account, credit ledger.Posting, credited bool) {
	switch {
	case !credited && p.Booked:
		c.find(Credited, p.Reference(), "payment %d of %s brought %s USD, which the ledger does not have", p.ID, account, p.Captured)
	case credited && (credit.Deposits != p.Captured || credit.Revenue != p.Fee || !isOf(&credit, account)):
		c.find(Credited, p.Reference(), "payment %d of %s brought %s USD with a fee of %s, the ledger has %s with %s for %q", p.ID, account, p.Captured, p.Fee, credit.Deposits, credit.Revenue, credit.Account)
	}
}

// charge compares the charge of a payment's request.
func (c *check) charge(p *book.Payment, account policy.Account, charge ledger.Posting) {
	switch {
	case charge.Key == "" && p.Booked && p.Charge > 0:
		c.find(Charged, p.Reference(), "request %s of payment %d cost %s USD, which the ledger has not charged", p.Request, p.ID, p.Charge)
	case charge.Key != "" && (p.Charge > 0 && charge.Revenue != p.Charge || !isOf(&charge, account)): // charge 0: it was settled first by an earlier version
		c.find(Charged, p.Reference(), "request %s of payment %d cost %s USD of %s, the ledger charged %s of %q", p.Request, p.ID, p.Charge, account, charge.Revenue, charge.Account)
	}
}

// isOf reports whether a journal belongs to an account. A journal that does not change the balance, such as a payment of only the fee, has no line of it.
func isOf(d *ledger.Posting, account policy.Account) bool {
	return d.Account == account || d.Account == ""
}

// loss compares a payment's settlement with its loss in the ledger.
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

// credits checks every credit of the ledger that references a payment.
func (c *check) credits(ctx context.Context) error {
	var after int64
	for {
		list, err := c.ledger.DepositsOf(ctx, book.ReferencePrefix, after, page)
		if err != nil || len(list) == 0 {
			return err
		}
		after = list[len(list)-1].Journal
		for i := range list {
			if err := c.compareCredit(ctx, &list[i]); err != nil {
				return err
			}
		}
	}
}

// compareCredit checks whether a credit has a payment. A payment that was taken after the payments were read is checked like them.
func (c *check) compareCredit(ctx context.Context, d *ledger.Posting) error {
	if d.Deposits < 0 { // a loss: it is compared with its payment
		return nil
	}
	if c.checked[d.Key] {
		return nil
	}
	_, reference, _ := strings.Cut(d.Key, ":"+book.ReferencePrefix)
	p, ok, err := c.book.ByReference(ctx, book.ReferencePrefix+reference)
	if err != nil {
		return err
	}
	if ok && d.Key == ledger.DepositKey(pay.Account(p.From), p.Reference()) {
		return c.comparePayments(ctx, []book.Payment{p})
	}
	c.unbacked[d.Key] = *d
	c.find(Backed, d.Key, "journal %d brought %s USD to %q, and there is no such payment", d.Journal, d.Deposits, d.Account)
	return nil
}
