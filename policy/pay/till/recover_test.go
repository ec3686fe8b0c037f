package till

import (
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// TestPitfall30AChargeThatIsNotNotedYet: a gateway ends after the charge of a request and before MarkBooked, and the rest of the payment is less than a second
// charge.
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
	s.passAfter(t, 0)
	s.passAfter(t, 10*time.Second)
	got, err := s.Book.ByID(t.Context(), p.ID)
	if err != nil || !got.Booked || got.Settlement != book.Confirmed {
		t.Errorf("booked %v, %s, %v", got.Booked, got.Settlement, err)
	}
	s.wantBalance(t, p.Value-p.Fee-cost)
}

// TestPitfall10WhatARequestCostIsTakenForNothingElse: a gateway is killed after it has credited the second payment of a wallet and before it has charged its
// request. Then the first payment, which never arrived, is taken back: neither that nor the wallet's debt uses the money reserved for the request. The request is
// charged, and the second payment is settled, like those of others.
func TestPitfall10WhatARequestCostIsTakenForNothingElse(t *testing.T) {
	inBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		for _, killed := range []bool{true, false} {
			checkWhatARequestCostIsTakenForNothingElse(t, s, killed)
		}
	})
}

func checkWhatARequestCostIsTakenForNothingElse(t *testing.T, s *shop, killed bool) {
	t.Helper()
	nonce := byte(10)
	payer := pay.Address{3}
	if killed {
		nonce, payer = 20, pay.Address{4}
	}
	take := func(nonce byte) Taken {
		t.Helper()
		p := s.payment(nonce)
		p.From = payer
		taken, err := s.Take(t.Context(), p, pay.Word{}, 11_000, requestOf(nonce))
		if err != nil {
			t.Fatal(err)
		}
		return taken
	}
	first, second := take(nonce), take(nonce+1)
	s.serve(t, &first, 10_000)
	s.chain.used[pay.Word{nonce}] = pay.Word{} // cancelled
	s.passAfter(t, time.Second)
	const cost = 6000
	c := ledger.Charge{RequestID: second.Request, Account: pay.Account(payer), Amount: cost}
	if err := s.Book.MarkServed(t.Context(), second.ID, cost, second.Value); err != nil {
		t.Fatal(err)
	}
	if _, err := s.books.CreditServed(t.Context(), pay.Account(payer), second.Value, second.Fee, second.Reference(), &c, nil); err != nil {
		t.Fatal(err)
	}
	has := func(amount, owed policy.Micro) {
		t.Helper()
		if b, err := s.books.Balance(t.Context(), pay.Account(payer)); err != nil || b.Amount != amount || b.Owed != owed {
			t.Errorf("killed %v: %+v, %v, want %s, owed %s", killed, b, err, amount, owed)
		}
	}
	has(10_000, 0)
	if killed {
		s.reopen(t)
	}
	if _, err := s.books.TakeBack(t.Context(), pay.Account(payer), first.Captured, first.Reference()); err != nil {
		t.Fatal(err)
	}
	has(cost, 11_000-4000)
	for range 3 {
		s.passAfter(t, 6*time.Second)
	}
	s.wantSettlement(t, &first, book.Failed)
	s.wantSettlement(t, &second, book.Confirmed)
	has(0, 11_000-4000)
	if r, err := s.books.Request(t.Context(), pay.Account(payer), second.Request); err != nil || r.Charged != cost {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := s.books.Audit(t.Context()); err != nil || !r.OK {
		t.Errorf("%+v, %v", r, err)
	}
}
