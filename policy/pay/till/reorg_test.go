package till

import (
	"testing"
	"time"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// TestPitfall16ATransferInALowerBlockIsFound: the payment was taken at a height that the chain no longer has, and somebody else sent the transfer.
func TestPitfall16ATransferInALowerBlockIsFound(t *testing.T) {
	inBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		s.chain.sends, s.chain.height = false, 7
		p, q := s.take(t, 1), s.take(t, 2)
		s.serve(t, &p, 4000)
		if err := s.Release(t.Context(), &q); err != nil {
			t.Fatal(err)
		}
		s.chain.height = 4
		s.chain.mine(pay.Word{99}, pay.Word{1})
		s.chain.mine(pay.Word{98}, pay.Word{2})
		for range 3 {
			s.passAfter(t, 10*time.Second)
		}
		s.wantSettlement(t, &p, book.Confirmed)
		s.wantSettlement(t, &q, book.Confirmed)
		if s.wantBalance(t, 6000+11_000); len(s.lost) != 0 {
			t.Errorf("%d losses", len(s.lost))
		}
	})
}
