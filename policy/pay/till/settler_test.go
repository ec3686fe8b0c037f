package till

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// fakeSettler is a facilitator in memory on a shop's chain.
type fakeSettler struct {
	chain *fakeChain

	mu            sync.Mutex
	orders        int
	settles       bool  // the transfer is made
	settleErr     error // error of Settle
	noHash        bool  // Settle reports no transaction
	refuses       bool  // Verify refuses
	verifyErr     error // error of Verify
	movesOnVerify bool  // Verify makes the transfer
	during        func()
}

func (s *fakeSettler) Check(context.Context) error { return nil }

func (s *fakeSettler) Verify(_ context.Context, p *pay.Payment) error {
	if s.movesOnVerify {
		s.move(p)
	}
	if s.refuses {
		return p.Refuse(pay.ReasonTransfer, "no")
	}
	return s.verifyErr
}

// move makes the transfer of a payment that is only to be verified.
func (s *fakeSettler) move(p *pay.Payment) {
	hash := pay.Word{0xf1, p.Nonce[0]}
	s.chain.by[hash] = p.From
	s.chain.mine(hash, p.Nonce)
}

func (s *fakeSettler) Settle(_ context.Context, t *pay.Transfer) (pay.Word, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.orders++; s.during != nil {
		s.during()
	}
	hash := pay.Word{0xf0, t.Nonce[0]}
	if s.settles {
		s.chain.mine(hash, t.Nonce)
	}
	if s.noHash || s.settleErr != nil {
		hash = pay.Word{}
	}
	return hash, s.settleErr
}

// openWithSettler opens a shop whose payments a facilitator settles.
func openWithSettler(t *testing.T) (*shop, *fakeSettler) {
	t.Helper()
	s := open(t, t.TempDir(), "")
	f := &fakeSettler{chain: s.chain, settles: true}
	s.Settler = f
	return s, f
}

var errUnknown = errors.New("no answer")

// TestAFacilitatorSettles, and the gateway's account signs nothing.
func TestAFacilitatorSettles(t *testing.T) {
	s, f := openWithSettler(t)
	p, q := s.take(t, 1), s.take(t, 2)
	s.serve(t, &p, 5000)
	s.serve(t, &q, 5000)
	s.passAfter(t, 0)
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.Confirmed)
	s.wantSettlement(t, &q, book.Confirmed)
	s.wantBalance(t, 2*(11_000-1000-5000))
	if f.orders != 2 || s.chain.prepared != 0 || len(s.gas) != 0 {
		t.Errorf("%d orders, %d transactions of its own, %v", f.orders, s.chain.prepared, s.gas)
	}
}

// TestK84WhatAFacilitatorDidTheChainSays: the facilitator settles without reporting it, in several ways, or does not settle, and reports anything.
func TestK84WhatAFacilitatorDidTheChainSays(t *testing.T) {
	refused := &pay.Refusal{Reason: "no_reason"}
	for _, row := range []struct {
		name    string
		settles bool
		says    error
		mute    bool
		after   time.Duration // until it is settled
		orders  int
	}{
		{"settled, and no answer", true, errUnknown, false, time.Second, 1},
		{"settled, and refused", true, refused, false, time.Second, 1},
		{"settled, without a transaction", true, nil, true, time.Second, 1},
		{"not settled, and no answer", false, errUnknown, false, 40 * time.Second, 2},
		{"not settled, and refused", false, refused, false, 2 * time.Second, 2},
		{"not settled, but reported as settled", false, nil, false, 40 * time.Second, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, f := openWithSettler(t)
			f.settles, f.settleErr, f.noHash = row.settles, row.says, row.mute
			p := s.take(t, 1)
			s.serve(t, &p, 5000)
			_ = s.pass(t.Context()) // an error if there was no answer
			f.settles, f.settleErr, f.noHash = true, nil, false
			for range 4 {
				s.passAfter(t, row.after)
			}
			s.wantSettlement(t, &p, book.Confirmed)
			if f.orders != row.orders || len(s.chain.used) != 1 {
				t.Errorf("%d orders, %d transfers", f.orders, len(s.chain.used))
			}
			s.wantBalance(t, 5000)
		})
	}
}

// TestPitfall15AFacilitatorThatNeverAnswers: the payment fails when it has expired, and not before; its request stays charged.
func TestPitfall15AFacilitatorThatNeverAnswers(t *testing.T) {
	s, f := openWithSettler(t)
	f.settles, f.settleErr = false, errUnknown
	p := s.take(t, 1)
	s.serve(t, &p, 5000)
	for range 12 {
		s.at = s.at.Add(45 * time.Second)
		s.chain.now = s.at
		_ = s.pass(t.Context())
	}
	got, err := s.Book.ByID(t.Context(), p.ID)
	if err != nil || got.Settlement == book.Failed || f.orders < 2 {
		t.Fatalf("before its end it is %s after %d orders, %v", got.Settlement, f.orders, err)
	}
	s.at = s.at.Add(5 * time.Minute)
	s.chain.now = s.at
	_ = s.pass(t.Context())
	s.wantSettlement(t, &p, book.Failed)
}

// TestPitfall15ATransferWhoseAnswerWasLostIsFoundAfterItsTime: a transfer that was made is no loss.
func TestPitfall15ATransferWhoseAnswerWasLostIsFoundAfterItsTime(t *testing.T) {
	s, f := openWithSettler(t)
	f.settleErr = errUnknown
	p := s.take(t, 1)
	s.serve(t, &p, 5000)
	_ = s.pass(t.Context())
	s.passAfter(t, time.Hour)
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.Confirmed)
	if len(s.lost) != 0 || f.orders != 1 {
		t.Errorf("%d losses, %d orders", len(s.lost), f.orders)
	}
}

// TestAnOrderOutlivesTheGateway: the order was stored before it was sent, and the next gateway queries the chain first.
func TestAnOrderOutlivesTheGateway(t *testing.T) {
	s := open(t, t.TempDir(), postgrestest.URL(t))
	f := &fakeSettler{chain: s.chain, settles: true, settleErr: errUnknown}
	s.Settler = f
	p := s.take(t, 1)
	s.serve(t, &p, 5000)
	_ = s.pass(t.Context())
	s.reopen(t)
	s.Settler = f
	s.passAfter(t, time.Second)
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.Confirmed)
	if f.orders != 1 {
		t.Errorf("%d orders", f.orders)
	}
}

// TestWhatAFacilitatorDoesNotTakeIsNotServed.
func TestWhatAFacilitatorDoesNotTakeIsNotServed(t *testing.T) {
	s, f := openWithSettler(t)
	f.refuses = true
	_, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 11_000, requestOf(1))
	if _, ok := errors.AsType[*pay.Refusal](err); !ok {
		t.Errorf("%v", err)
	}
	f.refuses = false
	s.take(t, 1)
}

// TestAnOrderIsStoredBeforeItIsSent, so that it is known after a crash.
func TestAnOrderIsStoredBeforeItIsSent(t *testing.T) {
	s, f := openWithSettler(t)
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	f.during = func() { s.wantSettlement(t, &p, book.Settling) }
	s.passAfter(t, time.Second)
	if f.orders != 1 {
		t.Errorf("%d orders", f.orders)
	}
}

// TestManyPaymentsAreGivenUpAtOnce: orders are concurrent, and share only the book (for the race detector).
func TestManyPaymentsAreGivenUpAtOnce(t *testing.T) {
	s, f := openWithSettler(t)
	f.settles, f.settleErr = false, errUnknown
	taken := make([]Taken, maxOrders/2) // more would exceed the wallet's exposure
	for i := range taken {
		taken[i] = s.take(t, byte(i+1))
		s.serve(t, &taken[i], 5000)
		if i%2 == 0 {
			s.chain.used[taken[i].Nonce] = pay.Word{} // its payer cancelled it
		}
	}
	for range 3 {
		s.at = s.at.Add(time.Hour)
		s.chain.now = s.at
		_ = s.pass(t.Context())
	}
	for i := range taken {
		s.wantSettlement(t, &taken[i], book.Failed)
	}
}
