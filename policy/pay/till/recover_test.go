package till

import (
	"testing"
	"time"

	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// TestPitfall30AChargeThatIsNotNotedYet: a gateway ends between the charge of a request and the note of it, and what is left of the payment would not pay for
// a second one.
func TestPitfall30AChargeThatIsNotNotedYet(t *testing.T) { inBoth(t, checkAChargeThatIsNotNotedYet) }

func checkAChargeThatIsNotNotedYet(t *testing.T, s *shop) {
	t.Helper()
	p := s.take(t, 1)
	const cost = 6000
	if err := s.Book.MarkServed(t.Context(), p.ID, cost, p.Value); err != nil {
		t.Fatal(err)
	}
	if err := s.books.CreditWallet(t.Context(), pay.Account(p.From), p.Value, p.Fee, p.Reference()); err != nil {
		t.Fatal(err)
	}
	h, err := s.books.Reserve(t.Context(), pay.Account(p.From), p.Request, cost)
	if err == nil {
		_, err = s.books.Capture(t.Context(), h, ledger.Charge{Amount: cost})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.reopen(t)
	s.look(t, 0)
	s.look(t, 10*time.Second)
	got, err := s.Book.ByID(t.Context(), p.ID)
	if err != nil || !got.Booked || got.Settlement != book.Confirmed {
		t.Errorf("booked %v, %s, %v", got.Booked, got.Settlement, err)
	}
	s.credit(t, p.Value-p.Fee-cost)
}
