package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/store"
)

const wallet = policy.Account("wallet_1")

// wantWallet checks a wallet's balance and debt.
func wantWallet(t testing.TB, l *Ledger, amount, owed policy.Micro, blocked bool) {
	t.Helper()
	b, err := l.Balance(t.Context(), wallet)
	if err != nil || b.Amount != amount || b.Owed != owed || b.Blocked != blocked {
		t.Errorf("%+v, %v, want %s, owed %s, blocked %v", b, err, amount, owed, blocked)
	}
}

func credited(t testing.TB, l *Ledger, amount, fee policy.Micro, ref string) {
	t.Helper()
	if err := l.CreditWallet(t.Context(), wallet, amount, fee, ref); err != nil {
		t.Fatal(err)
	}
}

func takenBack(t testing.TB, l *Ledger, amount policy.Micro, ref string) (loss policy.Micro) {
	t.Helper()
	loss, err := l.TakeBack(t.Context(), wallet, amount, ref)
	if err != nil {
		t.Fatal(err)
	}
	return loss
}

// returnUnused returns the free part of a gateway's block.
func returnUnused(t testing.TB, l *Ledger) {
	t.Helper()
	a := l.account(wallet)
	amount := a.takeIdle(time.Now().Add(time.Hour))
	if amount == 0 {
		return
	}
	s := idleBlock{a, amount}
	s.end(l.do(func(b *book) error { return b.returnIdleBlocks([]idleBlock{s}) }, nil))
}

// TestWhatAWalletOwesIsTakenOfWhatComesIn: its debt is collected once, from returned blocks, payments and deposits, before it is unblocked.
func TestWhatAWalletOwesIsTakenOfWhatComesIn(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	credited(t, l, 10_000, 1000, "p1")
	h := reserve(t, l, wallet, "r1", 4000) // all of the balance is in the block
	if loss := takenBack(t, l, 10_000, "p1"); loss != 10_000 {
		t.Errorf("a loss of %s", loss)
	}
	wantWallet(t, l, 9000, 10_000, true)
	if _, ok := l.ReserveNow(wallet, "r2", 1); ok {
		t.Error("the block of a blocked wallet was used")
	}
	returnUnused(t, l)
	wantWallet(t, l, 4000, 5000, true)
	l.Release(h)
	returnUnused(t, l)
	wantWallet(t, l, 0, 1000, true)
	wantClean(t, l)
	for range 2 {
		credited(t, l, 700, 100, "p2")
		wantWallet(t, l, 0, 400, true)
	}
	for range 2 {
		left, err := l.Deposit(t.Context(), wallet, 300, "d")
		if left != 0 || err != nil {
			t.Errorf("%s after a deposit, %v", left, err)
		}
		wantWallet(t, l, 0, 100, true)
	}
	if sum, err := l.Deposited(t.Context(), wallet, "d"); sum != 300 || err != nil {
		t.Errorf("%s deposited, %v", sum, err)
	}
	if _, err := l.Deposit(t.Context(), wallet, 301, "d"); !errors.Is(err, ErrReused) {
		t.Errorf("the same reference for more: %v", err)
	}
	for range 2 {
		credited(t, l, 10_000, 1000, "p3")
		wantWallet(t, l, 8900, 0, false)
	}
	if r := capture(t, l, reserve(t, l, wallet, "r3", 8900), 8900); r.Charged != 8900 {
		t.Errorf("%+v", r)
	}
	wantWallet(t, tool(t, path), 0, 0, false)
	wantClean(t, l)
}

// TestAWalletThatCoversItsLossIsNotBlocked: the rest of its credit can be used.
func TestAWalletThatCoversItsLossIsNotBlocked(t *testing.T) {
	l := gateway(t, storePath(t))
	credited(t, l, 4000, 0, "arrived")
	credited(t, l, 10_000, 0, "failed")
	if loss := takenBack(t, l, 10_000, "failed"); loss != 0 {
		t.Errorf("a loss of %s", loss)
	}
	wantWallet(t, l, 4000, 0, false)
	if r := capture(t, l, reserve(t, l, wallet, "r1", 4000), 4000); r.Charged != 4000 {
		t.Errorf("%+v", r)
	}
	wantClean(t, l)
}

// TestADeadGatewaysBlocksPayAWalletsDebt, and so does a standing hold whose request is not stored any more.
func TestADeadGatewaysBlocksPayAWalletsDebt(t *testing.T) {
	path := storePath(t)
	l := sharing(t, path)
	credited(t, l, 10_000, 0, "p1")
	if err := l.ReserveStandingHold(t.Context(), wallet, "later", 3000, "somebody"); err != nil {
		t.Fatal(err)
	}
	reserve(t, l, wallet, "r1", 7000)
	takenBack(t, l, 10_000, "p1")
	wantWallet(t, l, 10_000, 10_000, true)
	kill(t, l)
	next := sharing(t, path)
	wantWallet(t, next, 3000, 3000, true)
	if err := next.ReleaseStandingHold(t.Context(), "later"); err != nil {
		t.Fatal(err)
	}
	wantWallet(t, next, 0, 0, false)
	wantClean(t, next)
}

// TestTheCostOfAServedRequestIsSetAside in the transaction that books its payment, from its hold and from the payment, and is not used for anything else of its
// wallet, also if the gateway ends before it has charged the request.
func TestTheCostOfAServedRequestIsSetAside(t *testing.T) {
	path := storePath(t)
	l := sharing(t, path)
	credited(t, l, 5000, 0, "p1")
	h := reserve(t, l, wallet, "r2", 2000)
	c := &Charge{RequestID: "r2", Account: wallet, Amount: 6000}
	for range 2 {
		if _, err := l.CreditServed(t.Context(), wallet, 5000, 500, "p2", c, h); err != nil {
			t.Fatal(err)
		}
		if h.Amount() != 0 || h.standing != 6000 {
			t.Fatalf("%s held, %s set aside", h.Amount(), h.standing)
		}
	}
	wantBlockMatchesMemory(t, l, wallet)
	returnUnused(t, l)
	if loss := takenBack(t, l, 5000, "p1"); loss != 1500 {
		t.Errorf("a loss of %s", loss)
	}
	wantWallet(t, l, 6000, 1500, true)
	kill(t, l)
	old := openWith(t, path, Options{Gateway: true, IdleReturn: time.Hour, Now: func() time.Time { return time.Now().Add(2 * maxStandingHoldAge) }})
	old.releaseStaleStandingHolds()
	wantWallet(t, old, 6000, 1500, true)
	h, err := old.CreditServed(t.Context(), wallet, 5000, 500, "p2", c, nil)
	if err != nil || h.Amount() != 0 || h.standing != 6000 {
		t.Fatalf("%+v, %v", h, err)
	}
	r, err := old.Capture(t.Context(), h, *c)
	if err != nil || r.Charged != 6000 || r.Loss != 0 || r.Late {
		t.Errorf("%+v, %v", r, err)
	}
	wantWallet(t, old, 0, 1500, true) // before it is in the store
	flush(t, old)
	wantWallet(t, old, 0, 1500, true)
	if open, held := old.Holds(); open != 0 || held != 0 {
		t.Errorf("%d holds of %s", open, held)
	}
	wantClean(t, old)
}

// TestAChargeLogHasTheStandingHoldOfItsRequest: a request is charged whose gateway ends after it has appended the charge to the log, and before it has applied it.
func TestAChargeLogHasTheStandingHoldOfItsRequest(t *testing.T) {
	path := storePath(t)
	l := openWith(t, path, Options{Gateway: true, IdleReturn: time.Hour, Flush: time.Hour})
	c := Charge{RequestID: "r", Account: wallet, Amount: 6000}
	h, err := l.CreditServed(t.Context(), wallet, 10_000, 1000, "p", &c, nil)
	if err == nil {
		_, err = l.Capture(t.Context(), h, c)
	}
	if err != nil {
		t.Fatal(err)
	}
	cli := tool(t, path)
	b, err := cli.Balance(t.Context(), wallet)
	if err != nil || b.Amount != 3000 || b.Held != 0 || b.Available != 3000 {
		t.Errorf("%+v, %v", b, err)
	}
	takenBack(t, l, 20_000, "other")
	kill(t, l)
	next := sharing(t, path)
	wantWallet(t, next, 0, 17_000, true)
	if r, err := next.Request(t.Context(), wallet, "r"); err != nil || r.Charged != 6000 {
		t.Errorf("%+v, %v", r, err)
	}
	wantClean(t, next)
}

// TestCreditsAtTheSameTimePayALossOnce: if two gateways book payments concurrently, the wallet's debt is collected once.
func TestCreditsAtTheSameTimePayALossOnce(t *testing.T) {
	path := storePath(t)
	gateways := []*Ledger{sharing(t, path), sharing(t, path)}
	credited(t, gateways[0], 50_000, 0, "lost")
	if r := capture(t, gateways[0], reserve(t, gateways[0], wallet, "r", 50_000), 50_000); r.Charged != 50_000 {
		t.Fatalf("%+v", r)
	}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			l := gateways[i%2]
			if i == 10 {
				takenBack(t, l, 50_000, "lost")
			}
			credited(t, l, 3000, 1000, fmt.Sprint("p", i/2)) // each at both
			returnUnused(t, l)
		})
	}
	all.Wait()
	wantWallet(t, gateways[0], 0, 10_000, true)
	wantClean(t, gateways[1])
	credited(t, gateways[1], 12_000, 1000, "last")
	wantWallet(t, gateways[0], 1000, 0, false)
	wantClean(t, gateways[0])
}

// walletTrial runs payments of a wallet on two gateways that share a store and are killed now and then, and on a model with one number.
type walletTrial struct {
	*testing.T
	random   *rand.Rand
	path     string
	gateways [2]*Ledger
	cli      *Ledger
	net      policy.Micro   // payments that were not taken back, less charges
	paid     []policy.Micro // payments that may be taken back, by their number
	requests map[string]string
	open     [2][]*Hold
	step     int
}

// TestWhatAWalletHasAndOwesIsWhatItPaidLessWhatItUsed, with any payments taken back in between, and any kills of gateways.
func TestWhatAWalletHasAndOwesIsWhatItPaidLessWhatItUsed(t *testing.T) {
	for seed := range uint64(iterations(t, 4, 60)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := &walletTrial{T: t, random: rand.New(rand.NewPCG(seed, 11)), path: storePath(t), requests: map[string]string{}}
			p.cli = tool(t, p.path)
			for i := range p.gateways {
				p.gateways[i] = sharing(t, p.path)
			}
			for p.step = range 200 {
				p.randomStep()
				p.compare(p.cli)
			}
			for _, l := range p.gateways {
				kill(t, l)
			}
			last := sharing(t, p.path)
			p.compare(last)
			b, err := last.Balance(t.Context(), wallet)
			if err != nil || b.Amount != max(p.net, 0) || b.Owed != max(-p.net, 0) || b.Held != 0 {
				t.Errorf("%+v, %v, want %s", b, err, p.net)
			}
			wantClean(t, last)
		})
	}
}

func (p *walletTrial) randomStep() {
	i := p.random.IntN(2)
	l := p.gateways[i]
	switch n := p.random.IntN(22); {
	case n < 5:
		p.serve(i)
	case n < 7:
		amount := policy.Micro(1001 + p.random.IntN(9000))
		credited(p, l, amount, 1000, fmt.Sprint("settled first ", p.step))
		p.net += amount - 1000
	case n < 11 && len(p.paid) > 0:
		number := p.random.IntN(len(p.paid))
		amount := p.paid[number]
		for range 1 + p.random.IntN(2) {
			takenBack(p, p.gateways[p.random.IntN(2)], amount, fmt.Sprint(number))
		}
		if p.markTakenBack(number) {
			p.net -= amount
		}
	case n < 14:
		if h, err := l.Reserve(p.Context(), wallet, fmt.Sprint("r", p.step), policy.Micro(1+p.random.IntN(5000))); err == nil {
			p.open[i] = append(p.open[i], h)
		}
	case n < 16 && len(p.open[i]) > 0:
		h := p.open[i][0]
		p.open[i] = p.open[i][1:]
		if p.random.IntN(2) == 0 {
			l.Release(h)
			return
		}
		amount := h.Amount()
		capture(p, l, h, amount)
		p.net -= amount
	case n < 18:
		returnUnused(p, l)
	case n == 18:
		if _, err := p.cli.Deposit(p.Context(), wallet, 500, fmt.Sprint("d", p.step)); err == nil {
			p.net += 500
		}
	case n < 21 && len(p.paid) > 0:
		p.forgive(l)
	default:
		p.kill(i)
	}
}

// forgive forgives a payment that may have been lost, or all losses, at one of the gateways or by a tool.
func (p *walletTrial) forgive(l *Ledger) {
	if p.random.IntN(2) == 0 {
		l = p.cli
	}
	var refs []string
	if p.random.IntN(4) > 0 {
		refs = []string{fmt.Sprint(p.random.IntN(len(p.paid)))}
	}
	for again := range 2 {
		f, err := l.Forgive(p.Context(), wallet, ForgiveRequest{Refs: refs, Requests: p.requests, Via: "socket", Reason: "why"})
		if errors.Is(err, ErrNoLoss) {
			return
		}
		if err != nil || f.Again && f.Amount != 0 || again == 1 && !f.Again {
			p.Fatalf("step %d: %+v, %v", p.step, f, err)
		}
		p.net += f.Amount
		if refs == nil && f.Owed != 0 {
			p.Fatalf("step %d: all is forgiven, and %s are owed", p.step, f.Owed)
		}
	}
}

func (p *walletTrial) kill(i int) {
	kill(p, p.gateways[i])
	p.open[i] = nil
	p.gateways[i] = sharing(p, p.path)
}

// markTakenBack marks a payment as taken back; true the first time.
func (p *walletTrial) markTakenBack(number int) bool {
	if p.paid[number] < 0 {
		return false
	}
	p.paid[number] = -p.paid[number]
	return true
}

// serve books a payment and charges its request, sometimes at the other gateway after the first one was killed in between.
func (p *walletTrial) serve(i int) {
	cost := policy.Micro(1 + p.random.IntN(9000))
	amount := cost + 1000 + policy.Micro(p.random.IntN(3000))
	c := Charge{RequestID: fmt.Sprint("s", p.step), Account: wallet, Amount: cost}
	ref := fmt.Sprint(len(p.paid))
	var h *Hold
	if credit, err := p.gateways[i].Reserve(p.Context(), wallet, c.RequestID, policy.Micro(p.random.IntN(2000))); err == nil && p.random.IntN(2) == 0 {
		h = credit
		amount = max(amount-h.Amount(), 1001)
		if amount-1000+h.Amount() < cost {
			cost = amount - 1000 + h.Amount()
			c.Amount = cost
		}
	} else if err == nil {
		p.gateways[i].Release(credit)
	}
	h, err := p.gateways[i].CreditServed(p.Context(), wallet, amount, 1000, ref, &c, h)
	if err == nil && p.random.IntN(3) == 0 {
		if p.random.IntN(2) == 0 && len(p.paid) > 0 && p.paid[0] > 0 {
			takenBack(p, p.gateways[1-i], p.paid[0], "0")
			p.net -= p.paid[0]
			p.markTakenBack(0)
		}
		p.kill(i)
		i = 1 - i
		h, err = p.gateways[i].CreditServed(p.Context(), wallet, amount, 1000, ref, &c, nil)
	}
	if err != nil {
		p.Fatal(err)
	}
	if r, err := p.gateways[i].Capture(p.Context(), h, c); err != nil || r.Charged != cost {
		p.Errorf("step %d: %+v, %v, want %s", p.step, r, err, cost)
	}
	p.net += amount - 1000 - cost
	p.paid = append(p.paid, amount)
	if p.random.IntN(4) > 0 {
		p.requests[ref] = c.RequestID
	}
}

func (p *walletTrial) compare(l *Ledger) {
	b, err := l.Balance(p.Context(), wallet)
	if errors.Is(err, ErrUnknownKey) {
		return
	}
	if err != nil || b.Amount-b.Owed != p.net || b.Owed > 0 && !b.Blocked {
		p.Fatalf("step %d: %+v, %v, want %s", p.step, b, err, p.net)
	}
}

// TestLossesOfVersion10: in a store of version 10, blocked wallets owe their losses since their last payment; earlier losses are dropped, as in that
// version.
func TestLossesOfVersion10(t *testing.T) {
	path := missingStore(t)
	change(t, path, append(stepsTo(t, path, 10),
		`INSERT INTO account (id, name) VALUES (4, 'wallet_1'), (5, 'wallet_2'), (6, 'wallet_3'), (7, 'wallet_4')`,
		`INSERT INTO "key" (id, name, tier, hash, pepper_version, prepaid, read_only, rpm, tokens_per_hour, spend_per_day, networks, created_at)
	SELECT name, name, '', '', 1, 1, 0, 0, 0, 0, '', 0 FROM account WHERE id > 3`,
		// The first one lost 30, paid, lost 400 and 500, and has 200 now, of which a gateway held 150 when it was taken back.
		`INSERT INTO journal (id, idem, kind, at, ref) VALUES (1, 'deposit:wallet_1:a', 'deposit', 0, 'a'), (2, 'lost:wallet_1:a', 'deposit', 0, 'a'), (3, 'deposit:wallet_1:b:c', 'deposit', 0, 'b:c'),
	(4, 'deposit:wallet_1:d', 'deposit', 0, 'd'), (5, 'request:r', 'charge', 0, 'r'), (6, 'lost:wallet_1:b:c', 'deposit', 0, 'b:c'), (7, 'lost:wallet_1:d', 'deposit', 0, 'd')`,
		`INSERT INTO entry (journal, account, amount) VALUES (1, 4, 100), (1, 1, -100), (2, 4, -70), (2, 3, -30), (2, 1, 100), (3, 4, 400), (3, 1, -400), (4, 4, 500), (4, 1, -500),
	(5, 4, -730), (5, 2, 730), (6, 3, -400), (6, 1, 400), (7, 3, -500), (7, 1, 500)`,
		`INSERT INTO balance (account, micro, blocked) VALUES (4, 200, 1)`,
		// The second one lost 40 and has paid since. The third one's answer cost more than its balance.
		`INSERT INTO journal (id, idem, kind, at, ref) VALUES (8, 'lost:wallet_2:x', 'deposit', 0, 'x'), (9, 'deposit:wallet_2:y', 'deposit', 0, 'y'), (10, 'request:q', 'charge', 0, 'q')`,
		`INSERT INTO entry (journal, account, amount) VALUES (8, 3, -40), (8, 1, 40), (9, 5, 60), (9, 1, -60), (10, 2, 8), (10, 3, -8)`,
		`INSERT INTO balance (account, micro, blocked) VALUES (5, 60, 0), (6, 0, 1)`,
		// The fourth one was unblocked by hand.
		`INSERT INTO journal (id, idem, kind, at, ref) VALUES (11, 'lost:wallet_4:z', 'deposit', 0, 'z')`,
		`INSERT INTO entry (journal, account, amount) VALUES (11, 3, -7), (11, 1, 7)`,
		`INSERT INTO balance (account, micro, blocked) VALUES (7, 0, 0)`,
	)...)
	l := gateway(t, path)
	wantWallet(t, l, 0, 700, true)
	for id, want := range map[policy.Account]Balance{"wallet_2": {Prepaid: true, Amount: 60, Available: 60}, "wallet_3": {Prepaid: true, Blocked: true}, "wallet_4": {Prepaid: true}} {
		wantBalance(t, l, id, want)
	}
	wantClean(t, l)
	credited(t, l, 1000, 0, "good")
	wantWallet(t, l, 300, 0, false)
	wantClean(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !store.IsPostgres(path) && userVersion(t, path) != store.SchemaVersion {
		t.Errorf("the store is of version %d", userVersion(t, path))
	}
}
