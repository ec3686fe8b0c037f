package reconcile

import (
	"path/filepath"
	"testing"
	"time"

	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// withoutPayment credits a payment that is not in the store.
func (s *shop) withoutPayment() {
	s.Helper()
	p := &sale{Payment: book.Payment{Network: terms.Network.String(), Asset: terms.Asset.Address.String()}, account: pay.Account(pay.Address{1}), captured: 5000}
	p.From, p.Nonce = pay.Address{1}, pay.Word{1}
	s.credited(p)
}

// TestACreditWithoutAPaymentStaysAFinding when it is checked again.
func TestACreditWithoutAPaymentStaysAFinding(t *testing.T) {
	onBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		s.withoutPayment()
		r := s.auditTwice(100*time.Millisecond, func() {})
		if found := s.offending(r)[Backed]; len(found) != 1 || r.Again == nil || r.Again.Unexplained != 1 {
			t.Errorf("%v, %+v", found, r.Again)
		}
	})
}

// TestAnAuditOfWhatCannotBeReadFails, at its first check and when it checks again: nothing was found wrong, but nothing was found right either.
func TestAnAuditOfWhatCannotBeReadFails(t *testing.T) {
	for _, row := range []struct {
		name         string
		wrong        func(s *shop)
		book, ledger bool // cannot be read
		again        bool // only when it is checked again
	}{
		{name: "no payments can be read", wrong: func(*shop) {}, book: true},
		{name: "no credits can be read", wrong: func(*shop) {}, ledger: true},
		{name: "no payments can be read again", wrong: func(s *shop) { s.served(s.sell(1, 3000, 5000)); s.booked(&sale{Payment: book.Payment{ID: 1}}) }, book: true, again: true},
		{name: "the payments' journals cannot be read again", wrong: func(s *shop) { s.served(s.sell(1, 3000, 5000)); s.booked(&sale{Payment: book.Payment{ID: 1}}) }, ledger: true, again: true},
		{name: "no payment of a credit can be read again", wrong: (*shop).withoutPayment, book: true, again: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "bardo.db")
			s := newShop(t, file, dir)
			row.wrong(s)
			b, ok, err := book.Inspect(t.Context(), book.Beside(file, file, nil))
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			l, err := ledger.Open(t.Context(), file, ledger.Options{AuditWait: -1, Dir: dir})
			s.must(err)
			t.Cleanup(func() { _, _ = b.Close(), l.Close() })
			r, err := l.Audit(t.Context())
			s.must(err)
			end := func() {
				if row.book {
					s.must(b.Close())
				}
				if row.ledger {
					s.must(l.Close())
				}
			}
			between := func() {}
			if row.again {
				end, between = between, end
			}
			end()
			r.Left = time.Minute
			if err := run(t.Context(), b, l, &r, between); err == nil {
				t.Errorf("%+v", r)
			}
		})
	}
}
