package till

import (
	"errors"
	"maps"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// TestD56AFailedPaymentThatWasNotServedCostsNothing: a payment that is settled first, and whose transfer fails, leaves no debt, also not the fee, and is no
// loss of the operator.
func TestD56AFailedPaymentThatWasNotServedCostsNothing(t *testing.T) {
	inBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		s.SettleFirst, s.timeout = 1, 50*time.Millisecond
		got, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 11_000, requestOf(1))
		if !errors.Is(err, ErrUnsettled) {
			t.Fatal(err)
		}
		s.chain.used[pay.Word{1}] = pay.Word{} // cancelled
		for range 4 {
			s.passAfter(t, 6*time.Second)
		}
		s.wantSettlement(t, &got, book.Failed)
		if owed, err := s.Owed(t.Context(), pay.Address{3}); owed != 0 || err != nil || len(s.lost) != 0 {
			t.Errorf("the payer owes %s, losses %+v, %v", owed, s.lost, err)
		}
		s.wantBalance(t, 0)
		s.timeout = firstTimeout
		s.run(t)
		p, err := s.Take(t.Context(), s.payment(2), pay.Word{}, 11_000, requestOf(2))
		if err != nil || p.Owed != 0 {
			t.Fatalf("the next payment: %+v, %v", p, err)
		}
		s.serve(t, &p, 4000)
		s.wantBalance(t, 6000)
	})
}

// TestD56AFailedPaymentThatWasNotServedBlocksNothing: the wallet's credit can be used, and its next payment is settled after its request is served.
func TestD56AFailedPaymentThatWasNotServedBlocksNothing(t *testing.T) {
	inBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		if err := s.books.CreditWallet(t.Context(), pay.Account(pay.Address{3}), 6000, 0, "earlier"); err != nil {
			t.Fatal(err)
		}
		s.failUnserved(t, 1)
		s.SettleFirst = 0
		if has, err := s.Credit(t.Context(), pay.Address{3}); has != 6000 || err != nil {
			t.Errorf("credit of %s, %v", has, err)
		}
		for _, upTo := range []bool{false, true} {
			q := s.payment(2)
			if q.UpTo = upTo; upTo {
				q.Nonce, q.Facilitator = pay.Word{3}, pay.Address{8}
			}
			p, err := s.Take(t.Context(), q, pay.Word{}, 11_000, requestOf(q.Nonce[0]))
			if err != nil || p.first || p.Owed != 0 {
				t.Errorf("upto %v: %+v, %v", upTo, p, err)
			}
		}
	})
}

// failUnserved has a payment that is settled first fail.
func (s *shop) failUnserved(t *testing.T, nonce byte) {
	t.Helper()
	s.SettleFirst, s.timeout = 1, 50*time.Millisecond
	got, err := s.Take(t.Context(), s.payment(nonce), pay.Word{}, 11_000, requestOf(nonce))
	if !errors.Is(err, ErrUnsettled) {
		t.Fatal(err)
	}
	s.chain.used[pay.Word{nonce}] = pay.Word{} // cancelled
	s.lag = time.Second                        // so that it is found missing before it fails
	for range 4 {
		s.passAfter(t, 6*time.Second)
	}
	s.lag = 0
	s.wantSettlement(t, &got, book.Failed)
}

// TestD56AWalletWhoseTransfersFailIsRefused for the rest of an hour, since each of them has cost gas. Other wallets are not.
func TestD56AWalletWhoseTransfersFailIsRefused(t *testing.T) {
	inBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		s.chain.sends = false
		unsettled := func(nonce byte) {
			t.Helper()
			s.SettleFirst, s.timeout = 1, 50*time.Millisecond
			if _, err := s.Take(t.Context(), s.payment(nonce), pay.Word{}, 11_000, requestOf(nonce)); !errors.Is(err, ErrUnsettled) {
				t.Fatal(err)
			}
			s.passAfter(t, time.Second)
		}
		refused := func() {
			t.Helper()
			s.SettleFirst = 0
			_, err := s.Take(t.Context(), s.payment(8), pay.Word{}, 11_000, requestOf(8))
			if r, ok := errors.AsType[*pay.Refusal](err); !ok || r.Reason != pay.ReasonExposure || r.RetryAfter < 58*time.Minute || r.RetryAfter > time.Hour {
				t.Errorf("after three failed transfers: %+v, %v", r, err)
			}
		}
		s.failUnserved(t, 1)
		s.failUnserved(t, 2)
		unsettled(3) // no attempt has failed
		s.chain.revert = "the wallet is empty"
		unsettled(4)
		refused()
		other := s.payment(5)
		other.From = pay.Address{4}
		if _, err := s.Take(t.Context(), other, pay.Word{}, 11_000, requestOf(6)); err != nil {
			t.Errorf("another wallet: %v", err)
		}
		s.chain.revert, s.chain.sends = "", true
		for range 3 {
			s.passAfter(t, 6*time.Second)
		}
		s.take(t, 5) // the fourth one has arrived
		s.failUnserved(t, 6)
		refused()
		s.at = s.at.Add(time.Hour)
		s.take(t, 7)
	})
}

// TestD56APayerWhoOwesSpentCreditIsSettledFirst: the credit was of a payment for which nothing was served, and was spent before a reorganisation removed the
// transfer. Once the payer has paid it, its payments are settled afterwards again.
func TestD56APayerWhoOwesSpentCreditIsSettledFirst(t *testing.T) {
	inBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		p := s.keepReleased(t)
		h, err := s.books.Reserve(t.Context(), pay.Account(p.From), "spent", 7000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.books.Capture(t.Context(), h, ledger.Charge{Amount: 7000}); err != nil {
			t.Fatal(err)
		}
		s.removeBlocks(t)
		s.passAfter(t, 10*time.Minute)
		s.wantSettlement(t, &p, book.Failed)
		upTo := s.payment(2)
		upTo.UpTo, upTo.Facilitator = true, pay.Address{8}
		refused := func() {
			t.Helper()
			_, err := s.Take(t.Context(), upTo, pay.Word{}, 11_000, requestOf(2))
			if r, ok := errors.AsType[*pay.Refusal](err); !ok || r.Reason != pay.ReasonBlocked {
				t.Errorf("scheme upto: %v", err)
			}
		}
		refused() // it is not taken back yet
		s.passAfter(t, 4*time.Second)
		wantOwed(t, s, 7000)
		refused()
		if len(s.lost) != 1 {
			t.Errorf("losses %+v", s.lost)
		}
		stop := s.start(t)
		q := s.payment(3)
		q.Value += 7000
		taken, err := s.Take(t.Context(), q, pay.Word{}, 11_000, requestOf(3))
		if err != nil || !taken.first || taken.Owed != 7000 {
			t.Fatalf("%+v, %v", taken, err)
		}
		if beside, err := s.takeFor(t, 4, 11_000); err != nil || !beside.first || beside.Owed != 0 {
			t.Errorf("beside it: %+v, %v", beside, err)
		}
		s.serve(t, &taken, 4000)
		stop()
		wantOwed(t, s, 0)
		if taken, err = s.Take(t.Context(), upTo, pay.Word{}, 11_000, requestOf(2)); err != nil || taken.first {
			t.Errorf("%+v, %v", taken, err)
		}
	})
}

// TestD56APaymentThatIsSettledFirstIsBookedWhenItsRequestEnds, however long that takes, and by the next gateway if this one ends: with the charge and the fee
// if the cost was stored, else as credit without a fee.
func TestD56APaymentThatIsSettledFirstIsBookedWhenItsRequestEnds(t *testing.T) {
	for _, row := range []struct {
		name          string
		charge        policy.Micro
		credit, shown policy.Micro
	}{{"while it is served", 0, 11_000, 0}, {"when its cost is known", 4000, 6000, 1000}} {
		t.Run(row.name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, s *shop) {
				t.Helper()
				s.SettleFirst = 1
				stop := s.start(t)
				p := s.take(t, 1)
				stop()
				s.passAfter(t, 2*time.Minute)
				if got, err := s.Book.ByID(t.Context(), p.ID); err != nil || got.Booked {
					t.Fatalf("%+v, %v", got, err)
				}
				if row.charge > 0 {
					if err := s.Book.MarkCharged(t.Context(), p.ID, row.charge, p.fee); err != nil {
						t.Fatal(err)
					}
				}
				s.reopen(t)
				s.passAfter(t, time.Second)
				s.wantBalance(t, row.credit)
				got, err := s.Book.ByID(t.Context(), p.ID)
				if v := got.View(); err != nil || !got.Booked || v.Fee != row.shown || v.Credit != row.credit {
					t.Errorf("%+v, %v", v, err)
				}
				if err := s.Book.MarkCharged(t.Context(), p.ID, 5000, p.fee); !errors.Is(err, book.ErrLost) {
					t.Errorf("charged after it was booked: %v", err)
				}
			})
		})
	}
}

// TestD56AReleaseAfterAFailedBookingCreditsNothing: the request was served, and is charged later.
func TestD56AReleaseAfterAFailedBookingCreditsNothing(t *testing.T) {
	s := open(t, t.TempDir(), "")
	s.SettleFirst = 1
	stop := s.start(t)
	p := s.take(t, 1)
	stop()
	p.Charge, p.Fee = 4000, p.fee
	if err := errors.Join(s.Book.MarkCharged(t.Context(), p.ID, p.Charge, p.Fee), s.Release(t.Context(), &p)); err != nil {
		t.Fatal(err)
	}
	s.wantBalance(t, 0)
	s.passAfter(t, 6*time.Second)
	s.wantBalance(t, 6000)
}

// keepReleased takes and releases a payment that somebody else moves, so that it becomes its payer's credit.
func (s *shop) keepReleased(t *testing.T) (p Taken) {
	t.Helper()
	s.chain.height = 9
	p = s.take(t, 1)
	if err := s.Release(t.Context(), &p); err != nil {
		t.Fatal(err)
	}
	s.chain.mine(pay.Word{99}, pay.Word{1})
	s.passAfter(t, 20*time.Second)
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.Confirmed)
	s.wantBalance(t, 11_000)
	return p
}

// removeBlocks removes all transactions from the chain.
func (s *shop) removeBlocks(t *testing.T) {
	t.Helper()
	clear(s.chain.mined)
	clear(s.chain.used)
	for range 9 {
		s.passAfter(t, 5*time.Second)
	}
}

// TestD56ACreditedTransferThatAReorganisationRemovesIsNotSent: nothing was served for the payment, so the gateway sends no transfer. The
// payment is credited once, when the transfer is in a block again.
func TestD56ACreditedTransferThatAReorganisationRemovesIsNotSent(t *testing.T) {
	byBoth(t, func(t *testing.T, s *shop, made func() int) {
		t.Helper()
		p := s.keepReleased(t)
		s.removeBlocks(t)
		s.wantSettlement(t, &p, book.Settling)
		if has, err := s.Credit(t.Context(), pay.Address{3}); has != 0 || err != nil {
			t.Errorf("credit of %s, %v", has, err)
		}
		s.chain.mine(pay.Word{98}, pay.Word{1})
		s.passAfter(t, 5*time.Second)
		s.passAfter(t, 5*time.Second)
		s.wantSettlement(t, &p, book.Confirmed)
		s.wantBalance(t, 11_000)
		if made() != 0 {
			t.Errorf("%d transfers were made", made())
		}
	})
}

// TestD56ACreditWhoseTransferIsMissingIsNotSent: the authorization is used, the node does not find the transfer, and then a reorganisation removes it.
func TestD56ACreditWhoseTransferIsMissingIsNotSent(t *testing.T) {
	byBoth(t, func(t *testing.T, s *shop, made func() int) {
		t.Helper()
		p := s.keepReleased(t)
		s.lag = time.Minute
		mined := maps.Clone(s.chain.mined)
		clear(s.chain.mined)
		for range 3 {
			s.passAfter(t, 5*time.Second)
		}
		s.wantSettlement(t, &p, book.None)
		s.chain.mined = mined
		s.removeBlocks(t)
		s.chain.mine(pay.Word{98}, pay.Word{1})
		s.passAfter(t, 5*time.Second)
		s.passAfter(t, 5*time.Second)
		s.wantSettlement(t, &p, book.Confirmed)
		if s.wantBalance(t, 11_000); made() != 0 {
			t.Errorf("%d transfers were made", made())
		}
	})
}

// TestD56ATransferThatIsMadeFirstIsMadeAgain after a reorganisation, although its request cost nothing: its payer was told that it is being settled.
func TestD56ATransferThatIsMadeFirstIsMadeAgain(t *testing.T) {
	byBoth(t, func(t *testing.T, s *shop, made func() int) {
		t.Helper()
		s.SettleFirst = 1
		stop := s.start(t)
		p := s.take(t, 1)
		if err := s.Release(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
		stop()
		s.removeBlocks(t)
		s.wantSettlement(t, &p, book.Confirmed)
		if s.wantBalance(t, 11_000); made() != 2 {
			t.Errorf("%d transfers were made", made())
		}
	})
}

// byBoth runs a test with the ledger and its payments in files and in PostgreSQL, where the gateway's own account makes transfers, and a facilitator. made is
// how often a transfer was sent or ordered.
func byBoth(t *testing.T, test func(t *testing.T, s *shop, made func() int)) {
	t.Helper()
	t.Run("its own account", func(t *testing.T) {
		inBoth(t, func(t *testing.T, s *shop) {
			t.Helper()
			test(t, s, func() int { return s.chain.sent })
		})
	})
	t.Run("a facilitator", func(t *testing.T) {
		inBoth(t, func(t *testing.T, s *shop) {
			t.Helper()
			f := &fakeSettler{chain: s.chain, settles: true}
			s.Settler = f
			test(t, s, func() int { return f.orders })
		})
	})
}

// TestD56ACreditWhoseTransferIsNotMinedAgainIsTakenBack when its authorization has expired, without a debt.
func TestD56ACreditWhoseTransferIsNotMinedAgainIsTakenBack(t *testing.T) {
	byBoth(t, func(t *testing.T, s *shop, made func() int) {
		t.Helper()
		p := s.keepReleased(t)
		s.removeBlocks(t)
		s.passAfter(t, 10*time.Minute)
		s.passAfter(t, 5*time.Second)
		s.wantSettlement(t, &p, book.Failed)
		s.wantBalance(t, 0)
		if owed, err := s.Owed(t.Context(), pay.Address{3}); owed != 0 || err != nil || made() != 0 || len(s.lost) != 0 {
			t.Errorf("the payer owes %s, %d transfers were made, losses %+v, %v", owed, made(), s.lost, err)
		}
	})
}

// TestD56AReservationWhoseAnswerWasLostIsReleased: its request is over, and its payer may use the payment again. One whose request runs stays.
func TestD56AReservationWhoseAnswerWasLostIsReleased(t *testing.T) {
	inBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		sent := s.payment(1)
		lost, err := s.Book.Reserve(t.Context(), s.Terms, sent, requestOf(1), 0, s.Limits) // the request ended meanwhile
		if err != nil {
			t.Fatal(err)
		}
		runs, err := s.Take(t.Context(), s.payment(2), pay.Word{}, 11_000, requestOf(2))
		if err != nil {
			t.Fatal(err)
		}
		want := func(about string, id int64, want book.Service) {
			t.Helper()
			if p, err := s.Book.ByID(t.Context(), id); err != nil || p.Service != want {
				t.Errorf("%s: the payment is %s, want %s, %v", about, p.Service, want, err)
			}
		}
		s.passAfter(t, time.Second)
		want("at once", lost.ID, book.Serving)
		s.passAfter(t, 6*time.Second)
		want("lost", lost.ID, book.Released)
		want("a request that runs", runs.ID, book.Serving)
		s.passAfter(t, time.Minute)
		want("a request that runs", runs.ID, book.Serving)
		s.serve(t, &runs, 4000)
		want("a request that was served", runs.ID, book.Served)
		again, err := s.Take(t.Context(), sent, pay.Word{}, 11_000, requestOf(3))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context(), &again); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{requestOf(1), requestOf(2), requestOf(3)} {
			if _, ok := s.requests.Load(id); ok {
				t.Errorf("%s is remembered after its end", id)
			}
		}
	})
}
