package till

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// run has the till settle in the background until the test ends.
func (s *shop) run(t *testing.T) {
	t.Helper()
	t.Cleanup(s.start(t))
}

// start has the till settle in the background until stop.
func (s *shop) start(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

// TestD56SettledBeforeServed: the transfer is in a block before the request is served; the cost and the fee are charged to the payment, which after a request
// that costs nothing becomes the wallet's credit as a whole. Smaller payments than the threshold are settled afterwards; of larger ones, those by scheme upto
// are refused, since they would circumvent the rule.
func TestD56SettledBeforeServed(t *testing.T) { inBoth(t, checkD56SettledBeforeServed) }

func checkD56SettledBeforeServed(t *testing.T, s *shop) {
	t.Helper()
	s.SettleFirst = 11_000
	s.run(t)
	p := s.take(t, 1)
	s.wantSettlement(t, &p, book.Confirmed)
	s.serve(t, &p, 4000)
	s.wantBalance(t, 6000)
	q := s.take(t, 2)
	s.wantBalance(t, 6000)
	if err := s.Release(t.Context(), &q); err != nil {
		t.Fatal(err)
	}
	s.wantBalance(t, 6000+11_000)
	if _, err := s.Take(t.Context(), s.payment(2), pay.Word{}, 11_000, "req_x"); !errors.Is(err, book.ErrSpent) {
		t.Errorf("a payment that is the wallet's credit: %v", err)
	}
	var r *pay.Refusal
	large := s.payment(3)
	large.UpTo = true
	if got, err := s.Take(t.Context(), large, pay.Word{}, 10_000, "req_z"); !errors.As(err, &r) || r.Reason != pay.ReasonScheme || got.ID != 0 {
		t.Errorf("a large one by scheme upto: %+v, %v", got.Payment, err)
	}
	for _, upTo := range []bool{true, false} {
		later := s.payment(3)
		if later.Value, later.UpTo = 10_999, upTo; !upTo {
			later.Nonce = pay.Word{4}
		}
		got, err := s.Take(t.Context(), later, pay.Word{}, 10_000, "req_y"+string('a'+rune(later.Nonce[0])))
		if err != nil || got.Service != book.Serving || got.Settlement != book.None {
			t.Errorf("upto %v: %+v, %v", upTo, got.Payment, err)
		}
	}
}

// TestPitfall10APayerWhoFailedIsSettledFirst: after a loss, no request of the wallet is served before its payment is in a block, and the payment must cover the
// debt.
func TestPitfall10APayerWhoFailedIsSettledFirst(t *testing.T) {
	inBoth(t, checkPitfall10APayerWhoFailedIsSettledFirst)
}

func checkPitfall10APayerWhoFailedIsSettledFirst(t *testing.T, s *shop) {
	t.Helper()
	failed := s.take(t, 1)
	s.serve(t, &failed, 4000)
	s.chain.used[pay.Word{1}] = pay.Word{} // cancelled
	s.passAfter(t, time.Second)
	s.passAfter(t, 4*time.Second)
	s.wantSettlement(t, &failed, book.Failed)
	if len(s.lost) != 1 {
		t.Fatalf("lost %+v", s.lost)
	}
	const owed = 5000 // the cost of the request and the fee
	wantOwed(t, s, owed)
	s.run(t)
	var r *pay.Refusal
	if _, err := s.Take(t.Context(), s.payment(2), pay.Word{}, 11_000, requestOf(2)); !errors.As(err, &r) || r.Reason != pay.ReasonValue || !strings.Contains(r.Detail, "owes 0.005000 for") {
		t.Errorf("a payment of the price alone: %v", err)
	}
	if has, err := s.Credit(t.Context(), pay.Address{3}); has != -owed || err != nil {
		t.Errorf("the credit is %s, %v", has, err)
	}
	s.Limits.Exposure = 11_000 // the debt does not count
	larger := s.payment(3)
	larger.Value += owed
	larger.Quote = s.Signer.Sign(pay.Quote{Amount: 11_000, Expires: s.at.Add(time.Minute)}) // lower than the current price
	p, err := s.Take(t.Context(), larger, pay.Word{}, 12_000, requestOf(3))
	if err != nil || p.Owed != owed {
		t.Fatalf("%+v, %v", p, err)
	}
	s.wantSettlement(t, &p, book.Confirmed)
	s.serve(t, &p, 4000)
	wantOwed(t, s, 0)
	s.wantBalance(t, 6000)
}

// TestAForgivenPayerIsTrustedAgain: while a loss is not forgiven, payments are settled first, and those of scheme upto refused. Once another process has
// forgiven all losses, both are served like those of other payers, until the next loss.
func TestAForgivenPayerIsTrustedAgain(t *testing.T) { inBoth(t, checkAForgivenPayerIsTrustedAgain) }

func checkAForgivenPayerIsTrustedAgain(t *testing.T, s *shop) {
	t.Helper()
	lose := func(p Taken) {
		t.Helper()
		s.serve(t, &p, 4000)
		s.chain.used[p.Nonce] = pay.Word{} // cancelled
		s.passAfter(t, time.Second)
	}
	lose(s.take(t, 1))
	upTo := s.payment(9)
	upTo.UpTo, upTo.Facilitator = true, pay.Address{8}
	blocked := func() {
		t.Helper()
		var r *pay.Refusal
		if _, err := s.Take(t.Context(), upTo, pay.Word{}, 11_000, requestOf(9)); !errors.As(err, &r) || r.Reason != pay.ReasonBlocked {
			t.Errorf("scheme upto: %v", err)
		}
	}
	forgive := func() {
		t.Helper()
		other, err := ledger.Open(t.Context(), s.store, ledger.Options{Dir: s.dir, Connect: postgres.Connect})
		if err == nil {
			_, err = other.Forgive(t.Context(), pay.Account(pay.Address{3}), ledger.ForgiveRequest{Via: "socket", Reason: "why"})
			err = errors.Join(err, other.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	blocked() // the ledger does not have the loss yet
	s.passAfter(t, 4*time.Second)
	wantOwed(t, s, 5000)
	blocked()
	forgive()
	wantOwed(t, s, 0)
	for i, p := range []*pay.Payment{upTo, s.payment(2)} {
		taken, err := s.Take(t.Context(), p, pay.Word{}, 11_000, requestOf(9-byte(7*i)))
		if err != nil || taken.Owed != 0 || taken.first || taken.Service != book.Serving || taken.Settlement != book.None {
			t.Fatalf("%+v, %v", taken, err)
		}
		if upTo.Nonce = (pay.Word{10}); i == 1 {
			lose(taken)
			continue
		}
		if err := s.Release(t.Context(), &taken); err != nil {
			t.Error(err)
		}
	}
	s.passAfter(t, 4*time.Second)
	blocked()
	failed, err := s.Book.Failed(t.Context(), pay.Address{3})
	if err != nil || len(failed) != 2 {
		t.Fatalf("%+v, %v", failed, err)
	}
	lose(func() Taken { // a third one, the only one that is forgiven
		p := s.payment(4)
		p.Value += 5000 // the debt
		row, err := s.Book.Reserve(t.Context(), s.Terms, p, requestOf(4), 0, book.Limits{Failed: true})
		if err != nil {
			t.Fatal(err)
		}
		return Taken{Payment: row}
	}())
	s.passAfter(t, 4*time.Second)
	if failed, err = s.Book.Unpaid(t.Context(), pay.Address{3}, 1); err != nil || len(failed) != 1 || failed[0].Nonce != (pay.Word{4}) {
		t.Fatalf("%+v, %v", failed, err)
	}
	if _, err := s.books.Forgive(t.Context(), pay.Account(pay.Address{3}), ledger.ForgiveRequest{Refs: []string{failed[0].Reference()}}); err != nil {
		t.Fatal(err)
	}
	blocked()
	forgive()
	taken, err := s.Take(t.Context(), upTo, pay.Word{}, 11_000, requestOf(9))
	if err != nil || taken.first {
		t.Errorf("%+v, %v", taken, err)
	}
	s.wantBalance(t, 0)
}

// wantOwed waits until a payer owes an amount: gateways return reserved money within a second.
func wantOwed(t *testing.T, s *shop, want policy.Micro) {
	t.Helper()
	polltest.Until(t, fmt.Sprintf("the payer owes %s", want), func() bool {
		b, err := s.books.Balance(t.Context(), pay.Account(pay.Address{3}))
		return err == nil && b.Owed == want && (b.Blocked || want == 0)
	})
}

// TestPitfall10CreditIsSetAsideOnceForWhatIsSettledFirst: credit is reserved for only one of two concurrent payments.
func TestPitfall10CreditIsSetAsideOnceForWhatIsSettledFirst(t *testing.T) {
	inBoth(t, checkPitfall10CreditIsSetAsideOnceForWhatIsSettledFirst)
}

func checkPitfall10CreditIsSetAsideOnceForWhatIsSettledFirst(t *testing.T, s *shop) {
	t.Helper()
	s.SettleFirst = 1
	s.run(t)
	if err := s.books.CreditWallet(t.Context(), pay.Account(pay.Address{3}), 6000, 0, "earlier"); err != nil {
		t.Fatal(err)
	}
	small := func(nonce byte) *pay.Payment {
		p := s.payment(nonce)
		p.Value = 5000
		return p
	}
	p, err := s.Take(t.Context(), small(1), pay.Word{}, 11_000, requestOf(1))
	if err != nil {
		t.Fatal(err)
	}
	s.wantSettlement(t, &p, book.Confirmed)
	var r *pay.Refusal
	if _, err := s.Take(t.Context(), small(2), pay.Word{}, 11_000, requestOf(2)); !errors.As(err, &r) || r.Reason != pay.ReasonValue {
		t.Errorf("the same credit again: %v", err)
	}
	if p.Credit != 6000 {
		t.Errorf("%s of the credit are set aside", p.Credit)
	}
	s.serve(t, &p, 10_000)
	s.wantBalance(t, 0)
	if b, err := s.books.Balance(t.Context(), pay.Account(pay.Address{3})); err != nil || b.Held != 0 {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestD56AnUnsettledPaymentIsNotServed, and becomes the wallet's credit when it arrives, even if its gateway ended meanwhile.
func TestD56AnUnsettledPaymentIsNotServed(t *testing.T) {
	inBoth(t, checkD56AnUnsettledPaymentIsNotServed)
}

func checkD56AnUnsettledPaymentIsNotServed(t *testing.T, s *shop) {
	t.Helper()
	s.SettleFirst, s.timeout = 1, 50*time.Millisecond
	got, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 11_000, "req_1")
	if !errors.Is(err, ErrUnsettled) || got.Service != book.Served {
		t.Fatalf("%+v, %v", got.Payment, err)
	}
	s.reopen(t)
	for range 3 {
		s.passAfter(t, time.Second)
	}
	s.wantSettlement(t, &got, book.Confirmed)
	s.wantBalance(t, 11_000)
	h, err := s.Ledger.Reserve(t.Context(), pay.Account(pay.Address{3}), "req_1", 4000)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.Ledger.Capture(t.Context(), h, ledger.Charge{Amount: 4000}); err != nil || r.Charged != policy.Micro(4000) || r.Repeated {
		t.Errorf("the request was charged before: %+v, %v", r, err)
	}
}

// TestPitfall10CreditIsOfMoneyThatArrived: a payment that is in no block yet is not spendable credit, and one that failed is taken out of it.
func TestPitfall10CreditIsOfMoneyThatArrived(t *testing.T) {
	inBoth(t, checkPitfall10CreditIsOfMoneyThatArrived)
}

func checkPitfall10CreditIsOfMoneyThatArrived(t *testing.T, s *shop) {
	t.Helper()
	has := func(want policy.Micro) {
		t.Helper()
		if got, err := s.Credit(t.Context(), pay.Address{3}); err != nil || got != want {
			t.Errorf("the credit is %s, want %s, %v", got, want, err)
		}
		short := s.payment(9)
		short.Value = 5000
		p, err := s.Take(t.Context(), short, pay.Word{}, 11_000, requestOf(9))
		if r, refused := errors.AsType[*pay.Refusal](err); want >= 6000 && err != nil || want < 6000 && (!refused || r.Reason == "") {
			t.Errorf("a payment that lacks 0.006: %v", err)
		}
		if err == nil {
			if err := s.Release(t.Context(), &p); err != nil {
				t.Error(err)
			}
		}
	}
	has(0)
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	s.wantBalance(t, 6000)
	has(0)
	s.passAfter(t, time.Second)
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &p, book.Confirmed)
	has(6000)
	failed := s.take(t, 2)
	s.serve(t, &failed, 4000)
	has(1000)
	s.chain.used[pay.Word{2}] = pay.Word{} // cancelled
	s.passAfter(t, time.Second)
	s.wantSettlement(t, &failed, book.Failed)
	has(1000) // before it is taken back in the ledger
	s.passAfter(t, 4*time.Second)
	wantOwed(t, s, 0) // once the gateway has returned reserved money
	if b, err := s.books.Balance(t.Context(), pay.Account(failed.From)); err != nil || b.Amount != 1000 || b.Blocked {
		t.Fatalf("%+v, %v", b, err)
	}
	has(1000) // its other payment has covered the loss
}

// TestPitfall10LossesOfAllWalletsAreBounded: wallets without debts can cause losses up to the bound. Then payments are settled first, and those by scheme upto
// refused until the losses are an hour old.
func TestPitfall10LossesOfAllWalletsAreBounded(t *testing.T) {
	inBoth(t, checkPitfall10LossesOfAllWalletsAreBounded)
}

func checkPitfall10LossesOfAllWalletsAreBounded(t *testing.T, s *shop) {
	t.Helper()
	s.MaxLosses = 8000
	from := func(wallet, nonce byte) *pay.Payment {
		p := s.payment(nonce)
		p.From = pay.Address{wallet}
		return p
	}
	s.chain.revert = "the wallet is empty"
	for wallet := byte(1); wallet <= 2; wallet++ {
		if cost, until := s.Losses(); !until.IsZero() || s.SettlesFirst(1) {
			t.Fatalf("payments are settled first before wallet %d: %s", wallet, cost)
		}
		taken, err := s.Take(t.Context(), from(wallet, wallet), pay.Word{}, 11_000, requestOf(wallet))
		if err != nil {
			t.Fatal(err)
		}
		s.serve(t, &taken, 4000)
		s.passAfter(t, time.Second) // the transfer cannot be sent
		s.passAfter(t, time.Second)
	}
	cost, until := s.Losses()
	if cost != 8000 || until.IsZero() || !s.SettlesFirst(1) {
		t.Fatalf("%s were lost, until %s", cost, until)
	}
	p := from(3, 3)
	p.UpTo, p.Facilitator = true, pay.Address{8}
	_, err := s.Take(t.Context(), p, pay.Word{}, 11_000, requestOf(3))
	if r, ok := errors.AsType[*pay.Refusal](err); !ok || r.Reason != pay.ReasonLosses || r.RetryAfter <= 0 || r.RetryAfter > lossPeriod+time.Second {
		t.Errorf("scheme upto: %v", err)
	}
	s.chain.revert, s.chain.sends = "", true
	s.run(t)
	taken, err := s.Take(t.Context(), from(4, 4), pay.Word{}, 11_000, requestOf(4))
	if err != nil || !taken.first {
		t.Errorf("a new wallet is not settled first: %+v, %v", taken, err)
	}
}

func TestTheBoundOfLossesEnds(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(0, 0).Add(time.Duration(minute) * time.Minute) }
	list := []book.Loss{{Cost: 3, At: at(0)}, {Cost: 4, At: at(10)}, {Cost: 5, At: at(20)}}
	for limit, want := range map[int64]time.Time{13: {}, 12: at(60), 10: at(60), 9: at(70), 5: at(80), 1: at(80), 0: {}} {
		if l := sumLosses(list, policy.Micro(limit)); l.cost != 12 || !l.until.Equal(want) {
			t.Errorf("at most %d: %+v, want %v", limit, l, want)
		}
	}
}
