package reconcile

import (
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// TestAPaymentOfTheFeeAloneIsSound: the wallet's credit pays for the request, and the payment does not change the balance. That is no finding, but real differences
// of such a payment are found.
func TestAPaymentOfTheFeeAloneIsSound(t *testing.T) {
	onBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		s.completeSale(s.sell(1, 3000, 9000))
		s.completeSale(s.sell(1, 2000, fee))
		s.wantClean()
		p := s.sell(1, 1000, fee)
		p.charge = 0
		s.served(p)
		s.booked(p)
		if found := s.audit(); len(found[Credited]) != 1 || !strings.Contains(found[Credited][0], "which the ledger does not have") {
			t.Errorf("a payment that was not credited: %v", found)
		}
		s.credited(p)
		s.must(s.l.CreditWallet(s.Context(), p.account, fee, fee, book.ReferencePrefix+"base:0x0:0x0:0x0"))
		if found := s.audit(); len(found) != 1 || len(found[Backed]) != 1 {
			t.Errorf("a credit of no payment: %v", found)
		}
	})
}

// TestACreditOfTheFeeAloneBeforeItsPayment is checked again, like others.
func TestACreditOfTheFeeAloneBeforeItsPayment(t *testing.T) {
	onBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		s.completeSale(s.sell(1, 3000, 9000))
		p := &sale{Payment: book.Payment{Network: terms.Network.String(), Asset: terms.Asset.Address.String()}, account: pay.Account(pay.Address{1}), charge: 2000, captured: fee}
		p.From, p.Nonce = pay.Address{1}, pay.Word{2} // like those of the next sale
		s.credited(p)
		r := s.auditTwice(time.Minute, func() { s.completeSale(s.sell(1, 2000, fee)) })
		if found := s.offending(r); len(found) > 0 || r.Again == nil || r.Again.Unexplained != 0 {
			t.Errorf("%v %+v", found, r.Again)
		}
	})
}
