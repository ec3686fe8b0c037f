package till

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

func TestMain(m *testing.M) {
	code := m.Run()
	postgrestest.StopShared()
	os.Exit(code)
}

// shop is a till with a ledger, a book, a fake chain, and a clock that the test sets.
type shop struct {
	*Till
	chain      *fakeChain
	books      *ledger.Ledger
	lost       []Loss
	gas        []int64
	at         time.Time
	dir, store string
}

// inBoth runs a test with the ledger and its payments in files and in PostgreSQL.
func inBoth(t *testing.T, test func(t *testing.T, s *shop)) {
	t.Helper()
	for _, store := range []string{"SQLite", "PostgreSQL"} {
		t.Run(store, func(t *testing.T) {
			var url string
			if store == "PostgreSQL" {
				url = postgrestest.URL(t)
			}
			test(t, open(t, t.TempDir(), url))
		})
	}
}

// open opens a shop with its state in a directory and, unless that is "", in a PostgreSQL database.
func open(t *testing.T, dir, url string) *shop {
	t.Helper()
	s := &shop{at: time.Unix(1_800_000_000, 0), dir: dir, store: cmp.Or(url, filepath.Join(dir, "bardo.db"))}
	s.chain = &fakeChain{now: s.at, mined: map[pay.Word]pay.Receipt{}, by: map[pay.Word]pay.Address{}, used: map[pay.Word]pay.Word{}, sends: true}
	s.reopen(t)
	t.Cleanup(func() { _ = s.books.Close() })
	return s
}

// reopen ends the gateway, and starts the next one on the same stores.
func (s *shop) reopen(t *testing.T) {
	t.Helper()
	clock := func() time.Time { return s.at }
	if s.books != nil {
		if err := errors.Join(s.books.Close(), s.Book.Close()); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if s.books, err = ledger.Open(t.Context(), s.store, ledger.Options{Gateway: true, Dir: s.dir, Connect: postgres.Connect}); err != nil {
		t.Fatal(err)
	}
	b, err := book.Open(t.Context(), s.place(), clock)
	if err != nil {
		t.Fatal(err)
	}
	terms := &pay.Terms{Network: pay.Network{ID: 84532, Name: "base-sepolia"}, Asset: pay.Token{Name: "USD Coin", Version: "2"}, Fee: 1000, ServeTime: time.Minute, Margin: time.Minute}
	s.Till = New(Options{
		Terms: terms, Signer: pay.NewQuoteSigner([]byte("s"), terms), Chain: s.chain, Book: b, Ledger: s.books, Limits: book.Limits{Exposure: 100_000}, Log: slog.New(slog.DiscardHandler), Now: clock,
		Finality: 3, LowGas: func(left int64) { s.gas = append(s.gas, left) }, Lost: func(l Loss) { s.lost = append(s.lost, l) },
	})
	s.lag = 0
	t.Cleanup(func() { _ = b.Close() })
}

// place is the place of the payments.
func (s *shop) place() book.Place {
	return book.Beside(s.store, filepath.Join(s.dir, "bardo.db"), postgres.Connect)
}

// payment is a payment with a nonce.
func (s *shop) payment(nonce byte) *pay.Payment {
	return &pay.Payment{Version: 2, Signature: make([]byte, 65), Authorization: pay.Authorization{From: pay.Address{3}, Value: 11_000, ValidBefore: uint64(s.at.Unix() + 600), Nonce: pay.Word{nonce}}}
}

// take reserves a payment for a request.
func (s *shop) take(t *testing.T, nonce byte) Taken {
	t.Helper()
	p, err := s.Take(t.Context(), s.payment(nonce), pay.Word{}, 11_000, requestOf(nonce))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func requestOf(nonce byte) string { return "req_" + string('a'+rune(nonce)) }

// serve books the cost of a payment's request.
func (s *shop) serve(t *testing.T, p *Taken, cost policy.Micro) {
	t.Helper()
	if _, err := s.Served(t.Context(), p, ledger.Charge{RequestID: p.Request, Account: pay.Account(p.From), Amount: cost}); err != nil {
		t.Fatal(err)
	}
}

// passAfter runs one pass of the till, some time later.
func (s *shop) passAfter(t *testing.T, later time.Duration) {
	t.Helper()
	s.at = s.at.Add(later)
	s.chain.now = s.at
	if err := s.pass(t.Context()); err != nil && !s.chain.down {
		t.Fatal(err)
	}
}

func (s *shop) wantSettlement(t *testing.T, p *Taken, want book.Settlement) {
	t.Helper()
	got, err := s.Book.ByID(t.Context(), p.ID)
	if err != nil || got.Settlement != want {
		t.Fatalf("the payment is %s (%s), want %s, %v", got.Settlement, got.Reason, want, err)
	}
}

// wantBalance compares the payer's balance in the ledger.
func (s *shop) wantBalance(t *testing.T, want policy.Micro) {
	t.Helper()
	b, err := s.books.Balance(t.Context(), pay.Account(pay.Address{3}))
	if err != nil && want == 0 {
		return
	}
	if err != nil || b.Amount != want {
		t.Fatalf("the wallet has %s, want %s, %v", b.Amount, want, err)
	}
	r, err := s.books.Audit(t.Context())
	if err != nil || !r.OK {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestAPaymentIsServedSettledAndFinal(t *testing.T) {
	inBoth(t, checkAPaymentIsServedSettledAndFinal)
}

func checkAPaymentIsServedSettledAndFinal(t *testing.T, s *shop) {
	t.Helper()
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	s.wantBalance(t, 6000)
	s.passAfter(t, 0)
	s.wantSettlement(t, &p, book.Settling)
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.Confirmed)
	s.chain.height += 3
	s.passAfter(t, 3*time.Second)
	s.wantSettlement(t, &p, book.Final)
	if len(s.gas) == 0 || s.chain.prepared != 1 {
		t.Errorf("%d alarms, %d transactions", len(s.gas), s.chain.prepared)
	}
	got, err := s.Await(t.Context(), p.ID)
	if err != nil || got.Settlement != book.Final {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestPitfall17WithUpToTheCostIsMoved, with the fee, and at most the signed amount; nothing is left in the wallet's account.
func TestPitfall17WithUpToTheCostIsMoved(t *testing.T) {
	for _, row := range []struct{ cost, moved, credit policy.Micro }{{4000, 5000, 0}, {10_000, 11_000, 0}, {10_500, 11_000, 0}} {
		inBoth(t, func(t *testing.T, s *shop) {
			t.Helper()
			q := s.payment(1)
			q.UpTo, q.Facilitator = true, pay.Address{8}
			p, err := s.Take(t.Context(), q, pay.Word{}, 11_000, requestOf(1))
			if err != nil {
				t.Fatal(err)
			}
			s.serve(t, &p, row.cost)
			s.wantBalance(t, row.credit)
			s.passAfter(t, 0)
			s.passAfter(t, time.Second)
			s.wantSettlement(t, &p, book.Confirmed)
			got, err := s.Book.ByID(t.Context(), p.ID)
			if err != nil || s.chain.moved != row.moved || got.Captured != row.moved || got.Authorization != q.Authorization {
				t.Errorf("%d cost: %d moved, %+v, %v", row.cost, s.chain.moved, got, err)
			}
		})
	}
}

// TestPitfall2And9APaymentIsUsedOnce, in every state; a released one can be used again.
func TestPitfall2And9APaymentIsUsedOnce(t *testing.T) { inBoth(t, checkPitfall2And9APaymentIsUsedOnce) }

func checkPitfall2And9APaymentIsUsedOnce(t *testing.T, s *shop) {
	t.Helper()
	p := s.take(t, 1)
	if _, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 11_000, "req_x"); !errors.Is(err, book.ErrInUse) {
		t.Errorf("while it serves: %v", err)
	}
	if err := s.Release(t.Context(), &p); err != nil {
		t.Fatal(err)
	}
	p = s.take(t, 1)
	s.serve(t, &p, 4000)
	for range 2 {
		if _, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 11_000, "req_y"); !errors.Is(err, book.ErrSpent) {
			t.Errorf("after it served: %v", err)
		}
		s.passAfter(t, time.Second)
	}
	other := s.payment(1)
	other.From = pay.Address{4}
	if _, err := s.Take(t.Context(), other, pay.Word{}, 11_000, "req_z"); err != nil {
		t.Errorf("the same nonce of another payer: %v", err)
	}
}

// TestPitfall10And11Exposure: a payer's unconfirmed payments are bounded, and a payer with a failed payment cannot pay by upto.
func TestPitfall10And11Exposure(t *testing.T) { inBoth(t, checkPitfall10And11Exposure) }

func checkPitfall10And11Exposure(t *testing.T, s *shop) {
	t.Helper()
	s.chain.revert = "transfer amount exceeds balance"
	var first Taken
	for n := byte(1); n <= 9; n++ {
		p := s.take(t, n)
		if s.serve(t, &p, 10_000); n == 1 {
			first = p
		}
	}
	var r *pay.Refusal
	if _, err := s.Take(t.Context(), s.payment(10), pay.Word{}, 11_000, "req_x"); !errors.As(err, &r) || r.Reason != pay.ReasonExposure {
		t.Errorf("a tenth payment: %v", err)
	}
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &first, book.None)
	s.passAfter(t, 20*time.Minute)
	s.wantSettlement(t, &first, book.Failed)
	s.passAfter(t, 4*time.Second)
	s.wantBalance(t, 0)
	if len(s.lost) != 9 || s.lost[0].Loss != 11_000 {
		t.Errorf("%d losses: %+v", len(s.lost), s.lost)
	}
	upTo := s.payment(11)
	upTo.UpTo = true
	if _, err := s.Take(t.Context(), upTo, pay.Word{}, 11_000, "req_y"); !errors.As(err, &r) || r.Reason != pay.ReasonBlocked {
		t.Errorf("after the loss: %v", err)
	}
	if _, err := s.Book.Reserve(t.Context(), s.Terms, s.payment(12), "req_z", 0, book.Limits{Failed: true}); err != nil {
		t.Errorf("served payments that failed count as ones that were not: %v", err)
	}
}

// TestPitfall10ACancelledAuthorizationAndAStrangersTransfer: a cancelled authorization is a loss; a transfer by a stranger is not, since the money has arrived.
func TestPitfall10ACancelledAuthorizationAndAStrangersTransfer(t *testing.T) {
	inBoth(t, checkPitfall10ACancelledAuthorizationAndAStrangersTransfer)
}

func checkPitfall10ACancelledAuthorizationAndAStrangersTransfer(t *testing.T, s *shop) {
	t.Helper()
	cancelled, taken := s.take(t, 1), s.take(t, 2)
	s.serve(t, &cancelled, 4000)
	s.serve(t, &taken, 4000)
	s.chain.used[pay.Word{1}] = pay.Word{}
	s.chain.mine(pay.Word{99}, pay.Word{2})
	s.passAfter(t, time.Second)
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &cancelled, book.Failed)
	s.wantSettlement(t, &taken, book.Confirmed)
	s.passAfter(t, 4*time.Second)
	if s.chain.prepared != 0 || len(s.lost) != 1 {
		t.Errorf("%d transactions, %d losses", s.chain.prepared, len(s.lost))
	}
}

// TestPitfall15AnUnknownOutcome: nothing is signed again while the node does not answer, and a later receipt counts.
func TestPitfall15AnUnknownOutcome(t *testing.T) { inBoth(t, checkPitfall15AnUnknownOutcome) }

func checkPitfall15AnUnknownOutcome(t *testing.T, s *shop) {
	t.Helper()
	s.chain.sends = false
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	s.passAfter(t, 0)
	s.chain.down = true
	s.passAfter(t, time.Hour)
	s.chain.down = false
	s.at = s.at.Add(-time.Hour)
	s.wantSettlement(t, &p, book.Settling)
	s.chain.mine(pay.Word{1, 1}, pay.Word{1})
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.Confirmed)
	if s.chain.prepared != 1 {
		t.Errorf("%d transactions were signed", s.chain.prepared)
	}
}

// TestAStuckTransactionIsReplaced with higher fees in its own slot, and either of the two may be mined.
func TestAStuckTransactionIsReplaced(t *testing.T) { inBoth(t, checkAStuckTransactionIsReplaced) }

func checkAStuckTransactionIsReplaced(t *testing.T, s *shop) {
	t.Helper()
	s.chain.sends = false
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	s.passAfter(t, 0)
	s.passAfter(t, 10*time.Second)
	s.passAfter(t, 31*time.Second)
	if len(s.chain.fees) != 2 || s.chain.fees[1] < s.chain.fees[0]*11/10 {
		t.Errorf("fees of %v", s.chain.fees)
	}
	q := s.take(t, 2)
	s.serve(t, &q, 4000)
	s.passAfter(t, time.Second)
	sent, err := s.Book.SentFor(t.Context(), q.ID)
	if err != nil || len(sent) != 1 || sent[0].Slot != 1 {
		t.Errorf("the next one has %+v, %v", sent, err)
	}
	s.chain.mine(pay.Word{1, 1}, pay.Word{1}) // the first one
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.Confirmed)
}

// TestPitfall16AReorganisedChain: a removed transfer is sent again, and one in another block is confirmed there.
func TestPitfall16AReorganisedChain(t *testing.T) { inBoth(t, checkPitfall16AReorganisedChain) }

func checkPitfall16AReorganisedChain(t *testing.T, s *shop) {
	t.Helper()
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	s.passAfter(t, 0)
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.Confirmed)
	for hash, r := range s.chain.mined {
		r.BlockHash = pay.Word{77}
		s.chain.mined[hash] = r
	}
	s.passAfter(t, 3*time.Second)
	if got, err := s.Book.ByID(t.Context(), p.ID); err != nil || got.BlockHash != (pay.Word{77}) || got.Settlement != book.Confirmed {
		t.Errorf("%+v, %v", got, err)
	}
	clear(s.chain.mined)
	clear(s.chain.used)
	s.chain.slot = 0
	s.passAfter(t, 3*time.Second)
	s.wantSettlement(t, &p, book.Settling)
	s.passAfter(t, 10*time.Second)
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.Confirmed)
	if s.chain.prepared != 1 {
		t.Errorf("%d transactions were signed, the first one is good", s.chain.prepared)
	}
}

// TestPitfall30CrashPoints: a gateway ends after each step, and the next one continues from there.
func TestPitfall30CrashPoints(t *testing.T) {
	for _, row := range []struct {
		after      string
		steps      func(t *testing.T, s *shop, p *Taken)
		service    book.Service
		settlement book.Settlement
		credit     policy.Micro
	}{
		{"it is reserved", func(*testing.T, *shop, *Taken) {}, book.Released, book.None, 0},
		{"it is served", func(t *testing.T, s *shop, p *Taken) {
			t.Helper()
			if err := s.Book.MarkServed(t.Context(), p.ID, 4000, p.Value); err != nil {
				t.Fatal(err)
			}
		}, book.Served, book.Confirmed, 6000},
		{"it is credited", func(t *testing.T, s *shop, p *Taken) {
			t.Helper()
			if err := errors.Join(s.Book.MarkServed(t.Context(), p.ID, 4000, p.Value), s.books.CreditWallet(t.Context(), pay.Account(p.From), p.Value, p.Fee, p.Reference())); err != nil {
				t.Fatal(err)
			}
		}, book.Served, book.Confirmed, 6000},
		{"it is charged", func(t *testing.T, s *shop, p *Taken) {
			t.Helper()
			s.serve(t, p, 4000)
		}, book.Served, book.Confirmed, 6000},
		{"it is signed and not sent", func(t *testing.T, s *shop, p *Taken) {
			t.Helper()
			s.serve(t, p, 4000)
			s.chain.sends = false
			s.passAfter(t, 0)
			s.chain.sends = true
		}, book.Served, book.Confirmed, 6000},
		{"it is sent", func(t *testing.T, s *shop, p *Taken) {
			t.Helper()
			s.serve(t, p, 4000)
			s.passAfter(t, 0)
		}, book.Served, book.Confirmed, 6000},
	} {
		t.Run(row.after, func(t *testing.T) {
			inBoth(t, func(t *testing.T, s *shop) {
				t.Helper()
				p := s.take(t, 1)
				row.steps(t, s, &p)
				s.reopen(t)
				s.passAfter(t, 0)
				s.passAfter(t, 10*time.Second)
				s.passAfter(t, time.Second)
				got, err := s.Book.ByID(t.Context(), p.ID)
				if err != nil || got.Service != row.service || got.Settlement != row.settlement {
					t.Errorf("the payment is %s and %s, %v", got.Service, got.Settlement, err)
				}
				if s.wantBalance(t, row.credit); len(s.chain.mined) > 1 || s.chain.prepared > 1 {
					t.Errorf("%d transfers, %d transactions were signed", len(s.chain.mined), s.chain.prepared)
				}
			})
		})
	}
}

// TestRunSettles in the background, for one of two tills on a book.
func TestRunSettles(t *testing.T) { inBoth(t, checkRunSettles) }

func checkRunSettles(t *testing.T, s *shop) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	wait, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if got, err := s.Await(wait, p.ID); err != nil || got.Settlement != book.Confirmed {
		t.Errorf("%+v, %v", got, err)
	}
	other, err := book.Open(t.Context(), s.place(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	if ok, err := other.Claim(t.Context()); ok || err != nil {
		t.Errorf("two settle at the same time: %v, %v", ok, err)
	}
	stop()
	running.Wait()
	if ok, err := other.Claim(t.Context()); !ok || err != nil {
		t.Fatalf("the settlements outlive who did them: %v, %v", ok, err)
	}
	if _, ok, err := s.Book.ByRequest(t.Context(), p.Request); !ok || err != nil {
		t.Error("no payment of the request")
	}
}

// TestPitfall1APaymentThatAnotherStoresGatewaySettled is a loss here: its wallet owes it, and is settled first from then on. Transfers by a stranger, or by a
// gateway of the same store, count.
func TestPitfall1APaymentThatAnotherStoresGatewaySettled(t *testing.T) {
	inBoth(t, checkPitfall1APaymentThatAnotherStoresGatewaySettled)
}

func checkPitfall1APaymentThatAnotherStoresGatewaySettled(t *testing.T, s *shop) {
	t.Helper()
	foreign, own := s.take(t, 1), s.take(t, 2)
	s.serve(t, &foreign, 4000)
	s.serve(t, &own, 4000)
	s.chain.marks = map[pay.Word]pay.Mark{{98}: pay.NewMark(1), {99}: s.Book.Mark()}
	s.chain.mine(pay.Word{98}, pay.Word{1})
	s.chain.mine(pay.Word{99}, pay.Word{2})
	s.passAfter(t, time.Second)
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &foreign, book.Failed)
	s.wantSettlement(t, &own, book.Confirmed)
	s.passAfter(t, 4*time.Second)
	if len(s.lost) != 1 || !strings.Contains(s.lost[0].Reason, "another gateway") {
		t.Errorf("losses %+v", s.lost)
	}
	if s.reopen(t); s.Book.Mark() != s.chain.marks[pay.Word{99}] || s.Book.Mark() == (pay.Mark{}) {
		t.Error("the store has another mark after a restart")
	}
}
