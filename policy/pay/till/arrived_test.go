package till

import (
	"errors"
	"testing"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// TestAReleasedPaymentThatArrivedIsItsPayers: somebody moved a released payment. When it is sent again, its payer is not asked to pay again: the payment pays
// for the request, once.
func TestAReleasedPaymentThatArrivedIsItsPayers(t *testing.T) {
	inBoth(t, checkAReleasedPaymentThatArrivedIsItsPayers)
}

func checkAReleasedPaymentThatArrivedIsItsPayers(t *testing.T, s *shop) {
	t.Helper()
	s.release(t, 1)
	s.chain.by[pay.Word{99}] = pay.Address{3}
	s.chain.mine(pay.Word{99}, pay.Word{1})
	s.chain.mine(pay.Word{98}, pay.Word{50})
	s.run(t)
	p, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 11_000, "req_again")
	if err != nil {
		t.Fatal(err)
	}
	s.wantSettlement(t, &p, book.Confirmed)
	s.serve(t, &p, 4000)
	s.wantBalance(t, 6000)
	if _, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 11_000, "req_third"); !errors.Is(err, book.ErrSpent) {
		t.Errorf("once more: %v", err)
	}
	if s.chain.prepared != 0 {
		t.Errorf("%d transactions were signed", s.chain.prepared)
	}
}

// TestAReleasedPaymentThatDidNotArriveIsRefused: it was cancelled, or has paid at a gateway with another store, or has other values than the released one. It
// does not count as a failed payment of its wallet.
func TestAReleasedPaymentThatDidNotArriveIsRefused(t *testing.T) {
	s := open(t, t.TempDir(), "")
	s.chain.by[pay.Word{}], s.chain.by[pay.Word{97}], s.chain.by[pay.Word{96}] = pay.Address{3}, pay.Address{3}, pay.Address{3}
	for n := byte(1); n <= 3; n++ {
		s.release(t, n)
	}
	s.chain.used[pay.Word{1}] = pay.Word{}
	s.chain.mine(pay.Word{97}, pay.Word{2})
	s.chain.marks = map[pay.Word]pay.Mark{{97}: pay.NewMark(77)}
	s.chain.mine(pay.Word{96}, pay.Word{3})
	s.chain.mine(pay.Word{96}, pay.Word{4}) // a payment that this gateway never got
	s.run(t)
	for n := byte(1); n <= 4; n++ {
		p := s.payment(n)
		if n == 3 {
			p.Value++
		}
		var r *pay.Refusal
		if _, err := s.Take(t.Context(), p, pay.Word{}, 11_000, "req_again"); !errors.As(err, &r) || r.Reason != pay.ReasonNonceUsed {
			t.Errorf("payment %d: %v", n, err)
		}
		if row, ok, err := s.Book.Find(t.Context(), s.Terms, p); err != nil || ok && row.Service != book.Released {
			t.Errorf("payment %d is %+v, %v", n, row, err)
		}
	}
}

// release takes a payment and releases it.
func (s *shop) release(t *testing.T, nonce byte) {
	t.Helper()
	p := s.take(t, nonce)
	if err := s.Release(t.Context(), &p); err != nil {
		t.Fatal(err)
	}
}

// TestAUsedPaymentIsNeverToldAPrice: the error is that it is used, even if it is less than the price of the request.
func TestAUsedPaymentIsNeverToldAPrice(t *testing.T) {
	s := open(t, t.TempDir(), "")
	serving := s.take(t, 1)
	if _, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 50_000, requestOf(2)); !errors.Is(err, book.ErrInUse) {
		t.Errorf("while it is in use: %v", err)
	}
	s.serve(t, &serving, 4000)
	if _, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 50_000, requestOf(2)); !errors.Is(err, book.ErrSpent) {
		t.Errorf("when it is used: %v", err)
	}
}
