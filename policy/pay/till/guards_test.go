package till

import (
	"context"
	"errors"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// TestPitfall16ATransactionThatMovedNothingIsNoPayment: a transaction failed in its block. The payment is not confirmed, and a new transaction is sent.
func TestPitfall16ATransactionThatMovedNothingIsNoPayment(t *testing.T) {
	inBoth(t, checkPitfall16ATransactionThatMovedNothing)
}

func checkPitfall16ATransactionThatMovedNothing(t *testing.T, s *shop) {
	t.Helper()
	s.chain.sends = false
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	s.passAfter(t, 0)
	s.chain.height, s.chain.slot = 1, 1
	s.chain.mined[pay.Word{1, 1}] = pay.Receipt{Block: 1, BlockHash: pay.Word{1}, Succeeded: false}
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.None)
	s.chain.sends = true
	s.passAfter(t, 59*time.Second)
	s.wantSettlement(t, &p, book.None)
	s.passAfter(t, 2*time.Second)
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.Confirmed)
	if s.chain.prepared != 2 {
		t.Errorf("%d transactions were signed", s.chain.prepared)
	}
	r := s.chain.mined[pay.Word{2, 1}]
	r.Paid = false // after a reorganisation, the transaction fails
	s.chain.mined[pay.Word{2, 1}] = r
	s.passAfter(t, 3*time.Second)
	s.wantSettlement(t, &p, book.Settling)
}

// TestARefusedPaymentHoldsNoCredit: the credit that was reserved for it is released.
func TestARefusedPaymentHoldsNoCredit(t *testing.T) { inBoth(t, checkARefusedPaymentHoldsNoCredit) }

func checkARefusedPaymentHoldsNoCredit(t *testing.T, s *shop) {
	t.Helper()
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	s.passAfter(t, time.Second)
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.Confirmed)
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

// TestPitfall19TransactionsThatFailInBlocksAreFew: a payer's contract accepts a payment in simulations, and never in a block. Each of its transactions costs gas.
func TestPitfall19TransactionsThatFailInBlocksAreFew(t *testing.T) {
	inBoth(t, checkPitfall19TransactionsThatFailInBlocks)
}

func checkPitfall19TransactionsThatFailInBlocks(t *testing.T, s *shop) {
	t.Helper()
	s.chain.fails = true
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	for range 130 { // more than its ten minutes
		s.passAfter(t, 5*time.Second)
	}
	s.wantSettlement(t, &p, book.Failed)
	if s.chain.prepared < 4 || s.chain.prepared > 5 { // after 0, 1, 3 and 7 minutes, and at the expiry, when a token would refuse it
		t.Errorf("%d transactions were sent", s.chain.prepared)
	}
	s.passAfter(t, 4*time.Second)
	if len(s.lost) != 1 {
		t.Errorf("lost %+v", s.lost)
	}
}

// racingLedger is a ledger in which another request of the payer reserves first.
type racingLedger struct {
	Ledger
	first func()
}

func (r *racingLedger) Reserve(ctx context.Context, account policy.Account, requestID string, amount policy.Micro) (*ledger.Hold, error) {
	r.first()
	return r.Ledger.Reserve(ctx, account, requestID, amount)
}

// TestPitfall10TwoRequestsDoNotSpendOneCredit concurrently: the second would be paid with money that is in no block yet, and may never arrive.
func TestPitfall10TwoRequestsDoNotSpendOneCredit(t *testing.T) {
	inBoth(t, checkPitfall10TwoRequestsDoNotSpendOneCredit)
}

func checkPitfall10TwoRequestsDoNotSpendOneCredit(t *testing.T, s *shop) {
	t.Helper()
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	s.passAfter(t, time.Second)
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.Confirmed)
	s.chain.sends = false
	q := s.take(t, 2)
	s.serve(t, &q, 1000)
	if has, err := s.Credit(t.Context(), pay.Address{3}); has != 4000 || err != nil { // of 15,000, of which 11,000 may never arrive
		t.Errorf("the credit is %s, %v", has, err)
	}
	short := func(nonce byte) *pay.Payment {
		p := s.payment(nonce)
		p.Value = 7000
		return p
	}
	var other Taken
	var failed error
	s.Ledger = &racingLedger{s.books, func() {
		s.Ledger = s.books
		other, failed = s.Take(t.Context(), short(3), pay.Word{}, 11_000, requestOf(3))
	}}
	var r *pay.Refusal
	if got, err := s.Take(t.Context(), short(4), pay.Word{}, 11_000, requestOf(4)); !errors.As(err, &r) || r.Reason != pay.ReasonValue {
		t.Errorf("the second: %+v, %v", got.Payment, err)
	}
	if failed != nil || other.Credit != 4000 {
		t.Errorf("the first: %+v, %v", other, failed)
	}
	s.serve(t, &other, 10_000)
	s.wantBalance(t, 11_000) // most of which is in no block yet
}

// TestANodeThatIsBehindIsNotTakenForACancellation: one node shows the authorization as used, another one does not show the transfer yet. It is found later; only a
// transfer that is never found counts as a cancellation.
func TestANodeThatIsBehindIsNotTakenForACancellation(t *testing.T) {
	inBoth(t, checkANodeThatIsBehind)
}

func checkANodeThatIsBehind(t *testing.T, s *shop) {
	t.Helper()
	s.lag = maxLag
	s.chain.sends = false
	p, q := s.take(t, 1), s.take(t, 2)
	s.serve(t, &p, 4000)
	s.serve(t, &q, 4000)
	s.chain.used[pay.Word{1}], s.chain.used[pay.Word{2}] = pay.Word{}, pay.Word{}
	for range 3 {
		s.passAfter(t, 5*time.Second)
		s.wantSettlement(t, &p, book.None)
	}
	delete(s.chain.used, pay.Word{1})
	s.chain.mine(pay.Word{99}, pay.Word{1})
	for range 4 {
		s.passAfter(t, 16*time.Second)
	}
	s.wantSettlement(t, &p, book.Confirmed)
	s.wantSettlement(t, &q, book.Failed)
}
