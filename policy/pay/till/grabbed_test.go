package till

import (
	"context"
	"errors"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// TestPitfall6AFacilitatorThatTakesWhatItRefuses: the facilitator moves a payment when it is asked to verify it, and refuses it or does not answer. If the
// transfer is seen immediately, the payment pays for its request; otherwise it pays for the request with which it is sent again, or becomes the wallet's credit
// as a whole, once, even if its gateway ended meanwhile.
func TestPitfall6AFacilitatorThatTakesWhatItRefuses(t *testing.T) {
	for _, row := range []struct {
		name   string
		says   error // its error; nil: a refusal
		honest bool  // it moves nothing
		behind bool  // the node does not show the transfer yet
		again  bool  // the payment is sent again
		restart,
		late bool // the transfer is seen after the expiry of the authorization
		credit policy.Micro // in the end
	}{
		{name: "moved and refused", credit: 6000},
		{name: "moved without an answer", says: errUnknown, credit: 6000},
		{name: "refused and seen later", behind: true, credit: 11_000},
		{name: "no answer and seen later", says: errUnknown, behind: true, credit: 11_000},
		{name: "seen by the next gateway", behind: true, restart: true, credit: 11_000},
		{name: "sent again", says: errUnknown, behind: true, again: true, credit: 6000},
		{name: "seen after its end", says: errUnknown, behind: true, late: true, credit: 11_000},
		{name: "refused and not moved", honest: true, behind: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, s *shop) {
				t.Helper()
				f := &fakeSettler{chain: s.chain, movesOnVerify: !row.honest, refuses: row.says == nil, verifyErr: row.says}
				s.Settler = f
				if row.behind {
					s.chain.behind = 1
				}
				served := s.offer(t, requestOf(1))
				if served == row.behind {
					t.Fatalf("the request is served: %v", served)
				}
				s.chain.behind = 0
				if row.again && !s.offer(t, requestOf(2)) {
					t.Error("the payment was sent again, and its request is not served")
				}
				if row.restart {
					s.reopen(t)
					s.Settler = f
				}
				if row.late {
					s.chain.behind = 1
					s.passAfter(t, 16*time.Second)
					s.chain.behind = 0
					s.passAfter(t, 601*time.Second)
				}
				for range 4 {
					s.passAfter(t, 6*time.Second)
				}
				s.wantBalance(t, row.credit)
				p, ok, err := s.Book.Find(t.Context(), s.Terms, s.payment(1))
				if err != nil || !ok || (p.Settlement == book.Confirmed || p.Settlement == book.Final) != f.movesOnVerify || s.chain.prepared != 0 || f.orders != 0 {
					t.Errorf("%+v, %v; %d transactions and %d orders for a transfer that was made", p, err, s.chain.prepared, f.orders)
				}
				if _, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 11_000, requestOf(3)); f.movesOnVerify && !errors.Is(err, book.ErrSpent) {
					t.Errorf("once more: %v", err)
				}
			})
		})
	}
}

// offer takes a payment and, if it is accepted, charges its request, while the till settles.
func (s *shop) offer(t *testing.T, request string) (served bool) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); s.Run(ctx) }()
	p, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 11_000, request)
	stop()
	<-over
	if err != nil {
		return false
	}
	s.serve(t, &p, 4000)
	return true
}

// TestWhatWasMovedByWhoeverIsItsPayersOnce: two gateways of one store look for the transfer concurrently, and the payment is sent to both.
func TestWhatWasMovedByWhoeverIsItsPayersOnce(t *testing.T) {
	inBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		s.release(t, 1)
		s.chain.by[pay.Word{99}] = pay.Address{3}
		s.chain.mine(pay.Word{99}, pay.Word{1})
		row, _, err := s.Book.Find(t.Context(), s.Terms, s.payment(1))
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := s.Book.Claim(t.Context()); !ok || err != nil {
			t.Fatal(ok, err)
		}
		other, err := book.Open(t.Context(), s.elsewhere(t), s.Now)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = other.Close() })
		took := make(chan error)
		go func() {
			_, err := other.Reserve(t.Context(), s.Terms, s.payment(1), requestOf(2), 1, book.Limits{})
			took <- err
		}()
		_, moved, err := s.Book.MarkMovedByOther(t.Context(), row.ID, pay.Word{99})
		if reserved := <-took; err != nil || moved != errors.Is(reserved, book.ErrSpent) || !moved && reserved != nil {
			t.Errorf("it is moved: %v, %v; reserved: %v", moved, err, reserved)
		}
		if _, again, err := s.Book.MarkMovedByOther(t.Context(), row.ID, pay.Word{99}); again || err != nil {
			t.Errorf("it is moved again: %v", err)
		}
	})
}

// elsewhere is the place of the shop's store on another machine, if it is a database.
func (s *shop) elsewhere(t *testing.T) book.Place {
	t.Helper()
	at := s.place()
	if at.File == "" {
		at.Dir = t.TempDir()
	}
	return at
}

// TestAReleasedPaymentIsLookedForTwice: some time after the release, and after the expiry; not while it serves a request, and not one of scheme upto, which nobody
// else can move.
func TestAReleasedPaymentIsLookedForTwice(t *testing.T) {
	inBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		s.lag = maxLag
		asked := func(what string, want int, later time.Duration) {
			t.Helper()
			s.chain.asked = 0
			for range 3 {
				s.passAfter(t, later/3)
			}
			if s.chain.asked != want {
				t.Errorf("%s: the chain was asked %d times, want %d", what, s.chain.asked, want)
			}
		}
		q := s.payment(2)
		q.UpTo, q.Facilitator = true, pay.Address{8}
		upTo, err := s.Take(t.Context(), q, pay.Word{}, 11_000, requestOf(2))
		if err == nil {
			err = s.Release(t.Context(), &upTo)
		}
		if err != nil {
			t.Fatal(err)
		}
		asked("scheme upto", 0, time.Minute)
		s.release(t, 1)
		asked("at once", 0, 12*time.Second)
		asked("when nobody sent it again", 1, 6*time.Second)
		q = s.payment(3)
		for range 2 {
			p, err := s.Take(t.Context(), q, pay.Word{}, 11_000, requestOf(3))
			if err != nil {
				t.Fatal(err)
			}
			asked("meanwhile", 0, time.Minute)
			if err := s.Release(t.Context(), &p); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Take(t.Context(), q, pay.Word{}, 11_000, requestOf(3)); err != nil {
			t.Fatal(err)
		}
		asked("while it serves again", 0, time.Minute)
		asked("as long as a node that is behind may not have all blocks", 0, 420*time.Second)
		asked("in the end", 1, time.Minute)
		asked("after that", 0, time.Hour)
	})
}

// TestWhatTheChainDoesNotSayIsAskedLater: queries that fail are repeated, and an error of one payment does not affect the others.
func TestWhatTheChainDoesNotSayIsAskedLater(t *testing.T) {
	s := open(t, t.TempDir(), "")
	s.release(t, 1)
	s.chain.by[pay.Word{99}] = pay.Address{3}
	s.chain.mine(pay.Word{99}, pay.Word{1})
	s.chain.down = true
	s.passAfter(t, 16*time.Second)
	s.wantBalance(t, 0)
	s.chain.down = false
	s.passAfter(t, time.Second)
	s.wantBalance(t, 11_000)
	s.release(t, 2)
	s.chain.mine(pay.Word{98}, pay.Word{2})
	s.Chain = &failingChain{s.chain, pay.Word{2}}
	q := s.take(t, 3)
	s.serve(t, &q, 4000)
	s.at = s.at.Add(16 * time.Second)
	if err := s.pass(t.Context()); !errors.Is(err, errDown) {
		t.Errorf("the node failed, and the error is %v", err)
	}
	s.wantSettlement(t, &q, book.Settling)
	s.Chain = s.chain
	s.passAfter(t, 59*time.Second)
	s.wantBalance(t, 11_000+6000)
	s.passAfter(t, 2*time.Second)
	s.wantBalance(t, 11_000+6000+11_000)
}

// failingChain is a chain that fails for one payment.
type failingChain struct {
	*fakeChain

	no pay.Word
}

func (c *failingChain) Used(ctx context.Context, a *pay.Authorization) (bool, error) {
	if a.Nonce == c.no {
		return false, errDown
	}
	return c.fakeChain.Used(ctx, a)
}

// TestAPaymentThatCannotBeBookedDoesNotKeepOthersFromTheirs.
func TestAPaymentThatCannotBeBookedDoesNotKeepOthersFromTheirs(t *testing.T) {
	s := open(t, t.TempDir(), "")
	stuck := s.payment(1)
	stuck.From = pay.Address{4}
	p, err := s.Take(t.Context(), stuck, pay.Word{}, 11_000, requestOf(1))
	if err == nil {
		err = s.Book.MarkServed(t.Context(), p.ID, 4000, 11_000)
	}
	if err != nil {
		t.Fatal(err)
	}
	q := s.take(t, 2)
	s.serve(t, &q, 4000)
	s.Ledger = &failingLedger{s.books, pay.Account(pay.Address{4})}
	s.at = s.at.Add(6 * time.Second)
	if err := s.pass(t.Context()); !errors.Is(err, errUnknown) {
		t.Errorf("the ledger failed, and the error is %v", err)
	}
	s.wantSettlement(t, &q, book.Settling)
}

// failingLedger is a ledger that fails for one account.
type failingLedger struct {
	Ledger

	no policy.Account
}

func (r *failingLedger) CreditServed(ctx context.Context, a policy.Account, amount, fee policy.Micro, ref string, c *ledger.Charge, h *ledger.Hold) (*ledger.Hold, error) {
	if a == r.no {
		return nil, errUnknown
	}
	return r.Ledger.CreditServed(ctx, a, amount, fee, ref, c, h)
}

// TestTheSettlersAnswerIsAskedForWhatIsReserved: the payment is stored before the settler is asked, and is released if the gateway ends meanwhile.
func TestTheSettlersAnswerIsAskedForWhatIsReserved(t *testing.T) {
	s, f := openWithSettler(t)
	f.refuses, f.movesOnVerify = true, true
	s.Settler = &pausedSettler{fakeSettler: f, asked: make(chan struct{}), answer: make(chan struct{})}
	at := s.Settler.(*pausedSettler) //nolint:forcetypeassert // as it was set
	over := make(chan error)
	go func() {
		_, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 11_000, requestOf(1))
		over <- err
	}()
	<-at.asked
	if _, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 11_000, requestOf(2)); !errors.Is(err, book.ErrInUse) {
		t.Errorf("the same payment at the same time: %v", err)
	}
	p, ok, err := s.Book.Find(t.Context(), s.Terms, s.payment(1))
	if err != nil || !ok || p.Service != book.Serving {
		t.Errorf("%+v, %v", p, err)
	}
	s.chain.behind = 1
	close(at.answer)
	if err := <-over; err == nil {
		t.Error("it was refused, and is taken")
	}
	polltest.Until(t, "it is released", func() bool {
		p, _, err := s.Book.Find(t.Context(), s.Terms, s.payment(1))
		return err == nil && p.Service == book.Released
	})
}

// pausedSettler is a facilitator that answers /verify when the test lets it.
type pausedSettler struct {
	*fakeSettler

	asked, answer chan struct{}
}

func (p *pausedSettler) Verify(ctx context.Context, q *pay.Payment) error {
	close(p.asked)
	<-p.answer
	return p.fakeSettler.Verify(ctx, q)
}

// TestAReleasedPermitThatWasUsedIsRefused: nobody else can move a permit's money, so its nonce was invalidated, and nothing has arrived.
func TestAReleasedPermitThatWasUsedIsRefused(t *testing.T) {
	inBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		q := s.payment(1)
		q.UpTo, q.Facilitator = true, pay.Address{8}
		p, err := s.Take(t.Context(), q, pay.Word{}, 11_000, requestOf(1))
		if err == nil {
			err = s.Release(t.Context(), &p)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.chain.by[pay.Word{99}] = q.From
		s.chain.mine(pay.Word{99}, q.Nonce)
		s.timeout = time.Millisecond
		var r *pay.Refusal
		if got, err := s.Take(t.Context(), q, pay.Word{}, 11_000, requestOf(2)); !errors.As(err, &r) || r.Reason != pay.ReasonNonceUsed {
			t.Errorf("%+v, %v", got.Payment, err)
		}
		for range 2 {
			s.passAfter(t, 16*time.Minute)
		}
		s.wantBalance(t, 0)
		if row, _, err := s.Book.Find(t.Context(), s.Terms, q); err != nil || row.Service != book.Released {
			t.Errorf("%+v, %v", row, err)
		}
	})
}
