package till

import (
	"errors"
	"testing"
	"time"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// TestPitfall16ATransactionThatMovedNothingIsNoPayment: it is in a block, and failed there. The transfer is made anew, and its payment is not taken for arrived.
func TestPitfall16ATransactionThatMovedNothingIsNoPayment(t *testing.T) {
	inBoth(t, checkPitfall16ATransactionThatMovedNothing)
}

func checkPitfall16ATransactionThatMovedNothing(t *testing.T, s *shop) {
	t.Helper()
	s.chain.sends = false
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	s.look(t, 0)
	s.chain.height, s.chain.slot = 1, 1
	s.chain.mined[pay.Word{1, 1}] = pay.Receipt{Block: 1, BlockHash: pay.Word{1}, Succeeded: false}
	s.look(t, time.Second)
	s.is(t, &p, book.None)
	s.chain.sends = true
	s.look(t, 59*time.Second)
	s.is(t, &p, book.None)
	s.look(t, 2*time.Second)
	s.look(t, time.Second)
	s.is(t, &p, book.Confirmed)
	if s.chain.prepared != 2 {
		t.Errorf("%d transactions were signed", s.chain.prepared)
	}
	r := s.chain.mined[pay.Word{2, 1}]
	r.Paid = false // the chain was reorganised, and there the transaction fails
	s.chain.mined[pay.Word{2, 1}] = r
	s.look(t, 3*time.Second)
	s.is(t, &p, book.Settling)
}

// TestARefusedPaymentHoldsNoCredit that was to make up for what it lacks.
func TestARefusedPaymentHoldsNoCredit(t *testing.T) { inBoth(t, checkARefusedPaymentHoldsNoCredit) }

func checkARefusedPaymentHoldsNoCredit(t *testing.T, s *shop) {
	t.Helper()
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	s.look(t, time.Second)
	s.look(t, time.Second)
	s.is(t, &p, book.Confirmed)
	s.Limits.Exposure = 1
	short := s.payment(2)
	short.Value = 6000
	var r *pay.Refusal
	if _, err := s.Take(t.Context(), short, pay.Word{}, 11_000, requestOf(2)); !errors.As(err, &r) || r.Reason != pay.ReasonExposure {
		t.Fatalf("%v", err)
	}
	if has, err := s.Credit(t.Context(), pay.Address{3}); has != 6000 || err != nil {
		t.Errorf("the credit is %s, %v", has, err)
	}
}

// TestPitfall19TransactionsThatFailInBlocksAreFew: a payer's contract takes a payment when it is tried, and never in a block. Each of its transactions costs gas.
func TestPitfall19TransactionsThatFailInBlocksAreFew(t *testing.T) {
	inBoth(t, checkPitfall19TransactionsThatFailInBlocks)
}

func checkPitfall19TransactionsThatFailInBlocks(t *testing.T, s *shop) {
	t.Helper()
	s.chain.fails = true
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	for range 130 { // its ten minutes, and more
		s.look(t, 5*time.Second)
	}
	s.is(t, &p, book.Failed)
	if s.chain.prepared < 4 || s.chain.prepared > 5 { // after 0, 1, 3 and 7 minutes, and at the end, when a token would refuse it
		t.Errorf("%d transactions were sent", s.chain.prepared)
	}
	s.look(t, 4*time.Second)
	if len(s.lost) != 1 {
		t.Errorf("lost %+v", s.lost)
	}
}
