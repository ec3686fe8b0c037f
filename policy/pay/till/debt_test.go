package till

import (
	"context"
	"errors"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// owing has the payer lose 5000 by a payment that never arrives.
func (s *shop) owing(t *testing.T) {
	t.Helper()
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	s.chain.used[pay.Word{1}] = pay.Word{} // cancelled
	s.passAfter(t, time.Second)
	s.passAfter(t, 4*time.Second)
	wantOwed(t, s, 5000)
}

// wantAsked checks the debt that the payer's next payment must cover.
func (s *shop) wantAsked(t *testing.T, want policy.Micro) {
	t.Helper()
	owed, err := s.Owed(t.Context(), pay.Address{3})
	if err != nil || owed != want {
		t.Errorf("%s are asked for, want %s, %v", owed, want, err)
	}
	if has, err := s.Credit(t.Context(), pay.Address{3}); has != -want || err != nil {
		t.Errorf("the credit is %s, want %s, %v", has, -want, err)
	}
}

// takeFor takes a payment for a request of 11,000.
func (s *shop) takeFor(t *testing.T, nonce byte, value policy.Micro) (Taken, error) {
	t.Helper()
	p := s.payment(nonce)
	p.Value = value
	return s.Take(t.Context(), p, pay.Word{}, 11_000, requestOf(nonce))
}

// TestPitfall10ADebtIsAskedForOnce: while one payment is to pay it, others pay for their requests alone, and are settled first all the same.
func TestPitfall10ADebtIsAskedForOnce(t *testing.T) {
	inBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		s.owing(t)
		s.run(t)
		p, err := s.takeFor(t, 2, 16_000)
		if err != nil || p.Owed != 5000 {
			t.Fatalf("%+v, %v", p, err)
		}
		s.wantAsked(t, 0)
		q, err := s.takeFor(t, 3, 11_000)
		if err != nil || q.Owed != 0 || !q.first {
			t.Fatalf("beside it: %+v, %v", q, err)
		}
		s.serve(t, &p, 10_000)
		s.serve(t, &q, 10_000)
		wantOwed(t, s, 0)
		s.wantAsked(t, 0)
		s.wantBalance(t, 0)
	})
}

// meanwhileChain calls a function once while it verifies a payment.
type meanwhileChain struct {
	*fakeChain

	meanwhile func()
}

func (c *meanwhileChain) Verify(ctx context.Context, p *pay.Payment) error {
	if f := c.meanwhile; f != nil {
		c.meanwhile = nil
		f()
	}
	return c.fakeChain.Verify(ctx, p)
}

// TestPitfall10TwoPaymentsThatCoverADebtAtTheSameTime: one pays it, and the other one may be used up by its request.
func TestPitfall10TwoPaymentsThatCoverADebtAtTheSameTime(t *testing.T) {
	inBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		s.owing(t)
		s.Chain = &meanwhileChain{s.chain, func() {
			if p, err := s.takeFor(t, 2, 16_000); err != nil || p.Owed != 5000 {
				t.Errorf("%+v, %v", p, err)
			}
		}}
		s.run(t)
		if p, err := s.takeFor(t, 3, 16_000); err != nil || p.Owed != 0 {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// TestPitfall10ADebtIsAskedForAgain: a payment that was to pay it has failed, cannot be sent, or is not verified by the facilitator.
func TestPitfall10ADebtIsAskedForAgain(t *testing.T) {
	inBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		s.owing(t)
		again := func(nonce byte) {
			t.Helper()
			s.wantAsked(t, 5000)
			_, err := s.takeFor(t, nonce, 11_000)
			if r, ok := errors.AsType[*pay.Refusal](err); !ok || r.Reason != pay.ReasonValue {
				t.Errorf("a payment of the price alone: %v", err)
			}
		}
		s.timeout = 50 * time.Millisecond
		p, err := s.takeFor(t, 2, 16_000)
		if !errors.Is(err, ErrUnsettled) {
			t.Fatal(err)
		}
		s.wantAsked(t, 0) // its transfer may arrive
		s.chain.revert = "the wallet is empty"
		s.passAfter(t, time.Second)
		again(3)
		s.chain.used[pay.Word{2}] = pay.Word{} // cancelled
		for range 3 {
			s.passAfter(t, 6*time.Second)
		}
		s.wantSettlement(t, &p, book.Failed)
		wantOwed(t, s, 5000)
		again(3)
		s.Settler = &fakeSettler{chain: s.chain, refuses: true}
		if _, err := s.takeFor(t, 4, 16_000); err == nil {
			t.Error("the facilitator refuses it")
		}
		again(3)
		s.wantBalance(t, 0)
	})
}
