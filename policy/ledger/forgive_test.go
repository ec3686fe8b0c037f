package ledger

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/policy"
)

func forgiven(t testing.TB, l *Ledger, refs ...string) ForgiveResult {
	t.Helper()
	f, err := l.Forgive(t.Context(), wallet, ForgiveRequest{Refs: refs, Via: "socket", Reason: "our node was away"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// loseWalletPayment serves a wallet's payment and takes it back.
func loseWalletPayment(t testing.TB, l *Ledger, ref string, cost policy.Micro) {
	t.Helper()
	credited(t, l, cost, 0, ref)
	if r := capture(t, l, reserve(t, l, wallet, "request of "+ref, cost), cost); r.Charged != cost {
		t.Fatalf("%+v", r)
	}
	takenBack(t, l, cost, ref)
}

// TestALossIsForgivenOnce: at another gateway or by a command, and all gateways admit its wallet again immediately. It is not collected afterwards.
func TestALossIsForgivenOnce(t *testing.T) {
	path := storePath(t)
	l, other := sharing(t, path), sharing(t, path)
	loseWalletPayment(t, l, "a", 5000)
	wantWallet(t, l, 0, 5000, true)
	books := bookings(t, l)
	for again := range 2 {
		f := forgiven(t, tool(t, path), "a")
		if f.Again != (again == 1) || f.Amount != policy.Micro(5000*(1-again)) || f.Owed != 0 || len(f.Losses) != 1 {
			t.Errorf("%+v", f)
		}
		p := f.Losses[0].Forgiveness
		if p == nil || p.Amount != 5000 || p.Via != "socket" || p.Reason != "our node was away" || time.Since(p.At) > time.Minute {
			t.Errorf("%+v", p)
		}
	}
	for _, g := range []*Ledger{l, other} {
		wantWallet(t, g, 0, 0, false)
	}
	if now := bookings(t, l); !slices.Equal(now, books) {
		t.Errorf("money was moved: %v, before %v", now, books)
	}
	for range 2 {
		takenBack(t, other, 5000, "a")
		wantWallet(t, l, 0, 0, false)
	}
	credited(t, l, 3000, 0, "c")
	wantWallet(t, l, 3000, 0, false)
	for _, g := range []*Ledger{l, other} {
		if r := capture(t, g, reserve(t, g, wallet, fmt.Sprint("r", g == l), 1000), 1000); r.Charged != 1000 {
			t.Errorf("%+v", r)
		}
	}
	forgiven, err := l.ForgivenLosses(t.Context(), []string{LossKey(wallet, "a"), LossKey(wallet, "b"), LossKey(wallet, "c")})
	if p := forgiven[LossKey(wallet, "a")]; err != nil || len(forgiven) != 1 || p.Amount != 5000 || p.Reason != "our node was away" {
		t.Errorf("%+v, %v", forgiven, err)
	}
	wantClean(t, l)
	if r, err := l.Audit(t.Context()); err != nil || r.Forgiven.Losses != 1 || r.Forgiven.Amount != 5000 {
		t.Errorf("%+v, %v", r.Forgiven, err)
	}
}

// bookings returns all bookings.
func bookings(t testing.TB, l *Ledger) (all []Booking) {
	t.Helper()
	if err := l.EachBooking(t.Context(), RequestFilter{}, func(b *Booking) error { all = append(all, *b); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestOnlyWhatIsOwedIsForgiven: recoveries pay the oldest losses and are kept, and other losses are still owed.
func TestOnlyWhatIsOwedIsForgiven(t *testing.T) {
	l := gateway(t, storePath(t))
	loseWalletPayment(t, l, "a", 5000)
	credited(t, l, 100, 0, "p")
	wantWallet(t, l, 0, 4900, true)
	loss := func(ref string, cost policy.Micro) { // while the wallet owes, credit is collected, except for the part set aside for a request
		t.Helper()
		c := Charge{RequestID: "request of " + ref, Account: wallet, Amount: cost}
		h, err := l.CreditServed(t.Context(), wallet, cost, 0, ref, &c, nil)
		if err == nil {
			_, err = l.Capture(t.Context(), h, c)
		}
		if err != nil {
			t.Fatal(err)
		}
		takenBack(t, l, cost, ref)
	}
	loss("b", 3000)
	loss("c", 700)
	wantWallet(t, l, 0, 8600, true)
	if f := forgiven(t, l, "b"); f.Amount != 3000 || f.Owed != 5600 || len(f.StillOwed) != 2 || f.StillOwed[0].Ref != "a" || f.StillOwed[0].Owed != 4900 || f.StillOwed[1].Owed != 700 {
		t.Errorf("%+v", f)
	}
	wantWallet(t, l, 0, 5600, true)
	credited(t, l, 4800, 0, "q")
	wantWallet(t, l, 0, 800, true)
	if f := forgiven(t, l, "a"); f.Amount != 100 || f.Owed != 700 || f.Losses[0].Cost != 5000 || len(f.StillOwed) != 1 || f.StillOwed[0].Owed != 700 {
		t.Errorf("%+v", f)
	}
	wantClean(t, l)
	credited(t, l, 1000, 0, "r") // the last loss is recovered, so nothing of it is forgiven
	wantWallet(t, l, 300, 0, false)
	if f := forgiven(t, l); f.Amount != 0 || f.Again || f.Owed != 0 || len(f.Losses) != 3 {
		t.Errorf("%+v", f)
	}
	if f := forgiven(t, l); !f.Again {
		t.Errorf("%+v", f)
	}
	wantWallet(t, l, 300, 0, false)
	wantClean(t, l)
}

// TestALossIsWhatItsRequestCost: the credit of payments that fail together is taken back with the first of them; the cost of each one's request and the fee is owed,
// and forgiven. Other costs that their credit paid are owed for the latest.
func TestALossIsWhatItsRequestCost(t *testing.T) {
	l := gateway(t, storePath(t))
	requests := map[string]string{}
	for i := range 3 {
		c := Charge{RequestID: fmt.Sprint("r", i), Account: wallet, Amount: 3000}
		ref := fmt.Sprint("p", i)
		h, err := l.CreditServed(t.Context(), wallet, 9500, 1000, ref, &c, nil)
		if err == nil {
			_, err = l.Capture(t.Context(), h, c)
		}
		if err != nil {
			t.Fatal(err)
		}
		requests[ref] = c.RequestID
	}
	if r := capture(t, l, reserve(t, l, wallet, "other", 500), 500); r.Charged != 500 {
		t.Fatalf("%+v", r)
	}
	flush(t, l)
	returnUnused(t, l)
	for i := range 3 {
		takenBack(t, l, 9500, fmt.Sprint("p", i))
	}
	wantWallet(t, l, 0, 12_500, true)
	for i, want := range []policy.Micro{4000, 4000, 4500} {
		f, err := l.Forgive(t.Context(), wallet, ForgiveRequest{Refs: []string{fmt.Sprint("p", i)}, Requests: requests})
		if err != nil || f.Amount != want || f.Losses[0].Cost != 4000 || len(f.StillOwed) != 2-i {
			t.Errorf("%+v, %v, want %s", f, err, want)
		}
	}
	wantWallet(t, l, 0, 0, false)
	wantClean(t, l)
}

// TestOnlyLossesAreForgiven, nor are the losses that are named with it.
func TestOnlyLossesAreForgiven(t *testing.T) {
	l := gateway(t, storePath(t))
	if _, err := l.Forgive(t.Context(), wallet, ForgiveRequest{}); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("an unknown wallet: %v", err)
	}
	loseWalletPayment(t, l, "a", 5000)
	withKey(t, l, "wallet_11", usd)
	for _, refs := range [][]string{{"b"}, {"a", "b"}, {""}, {}} {
		if _, err := l.Forgive(t.Context(), wallet, ForgiveRequest{Refs: refs}); !errors.Is(err, ErrNoLoss) {
			t.Errorf("%q: %v", refs, err)
		}
	}
	if _, err := l.Forgive(t.Context(), "wallet_11", ForgiveRequest{}); !errors.Is(err, ErrNoLoss) {
		t.Errorf("another wallet: %v", err)
	}
	wantWallet(t, l, 0, 5000, true)
	wantClean(t, l)
}

// TestForgivingBesidePayments: losses are forgiven at two gateways, while payments are booked that pay for them. Each amount is forgiven or collected once.
func TestForgivingBesidePayments(t *testing.T) {
	path := storePath(t)
	gateways := []*Ledger{sharing(t, path), sharing(t, path)}
	const losses, payments = 8, 16
	for i := range losses {
		credited(t, gateways[0], 2000, 0, fmt.Sprint("lost", i))
	}
	if r := capture(t, gateways[0], reserve(t, gateways[0], wallet, "r", losses*2000), losses*2000); r.Charged != losses*2000 {
		t.Fatalf("%+v", r)
	}
	for i := range losses {
		takenBack(t, gateways[0], 2000, fmt.Sprint("lost", i))
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var sum policy.Micro
	for i := range losses {
		for _, g := range gateways {
			all.Go(func() {
				f, err := g.Forgive(t.Context(), wallet, ForgiveRequest{Refs: []string{fmt.Sprint("lost", i)}, Via: "http", Reason: "paid by invoice"})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				sum += f.Amount
			})
		}
	}
	for i := range payments {
		all.Go(func() { credited(t, gateways[i%2], 1500, 500, fmt.Sprint("p", i)) })
	}
	all.Wait()
	if sum > losses*2000 {
		t.Errorf("%s were forgiven", sum)
	}
	wantWallet(t, gateways[1], payments*1000-(losses*2000-sum), 0, false)
	r, err := gateways[0].Audit(t.Context())
	if err != nil || !r.OK || r.Forgiven.Losses != losses || r.Forgiven.Amount != sum {
		t.Errorf("%+v, %v, want %s", r, err, sum)
	}
}

// TestWhatVersion11ForgaveIsForgiven: a store of that version keeps its wallets' debts, and passes the audit.
func TestWhatVersion11ForgaveIsForgiven(t *testing.T) {
	path := missingStore(t)
	change(t, path, append(stepsTo(t, path, 11),
		`INSERT INTO account (id, name) VALUES (4, 'wallet_1')`,
		`INSERT INTO "key" (id, name, tier, hash, pepper_version, prepaid, read_only, rpm, tokens_per_hour, spend_per_day, networks, created_at)
	SELECT name, name, '', '', 1, 1, 0, 0, 0, 0, '', 0 FROM account WHERE id > 3`,
		`INSERT INTO journal (id, idem, kind, at, ref) VALUES (1, 'lost:wallet_1:a', 'deposit', 0, 'a'), (2, 'lost:wallet_1:b', 'deposit', 0, 'b')`,
		`INSERT INTO entry (journal, account, amount) VALUES (1, 3, -40), (1, 1, 40), (2, 3, -70), (2, 1, 70)`,
		`INSERT INTO balance (account, micro, blocked, owed, forgiven) VALUES (4, 0, 1, 70, 40)`)...)
	l := gateway(t, path)
	wantWallet(t, l, 0, 70, true)
	wantClean(t, l)
	if f := forgiven(t, l); f.Amount != 70 || f.Owed != 0 || f.Losses[0].Forgiveness.Amount != 0 || f.Losses[1].Forgiveness.Amount != 70 {
		t.Errorf("%+v", f)
	}
	wantWallet(t, l, 0, 0, false)
	wantClean(t, l)
}
