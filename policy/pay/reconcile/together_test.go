package reconcile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/internal/seedtest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
	"bardo.money/gateway/policy/pay"
)

// crowd changes the balances of few accounts concurrently, by two gateways on one store, and tracks the expected ones.
type crowd struct {
	*testing.T
	ledgers [2]*ledger.Ledger

	mu       sync.Mutex
	deposits map[string]policy.Micro // by account and reference
	credits  map[string]policy.Micro // less the fee
	lost     map[string]policy.Micro
	charges  map[policy.Account]policy.Micro
}

const accounts = 3 // number of keys, and of wallets

// TestManyAtTheSameTimeConserveMoney: deposits with repeated references, of the same amount or another one, payments of wallets that arrive or fail,
// reservations and charges, by two gateways on one store. In the end each balance is the sum of deposits less charges, and nothing is held. BARDO_SOAK=1 makes
// the test longer; BARDO_SEED is the only seed to run.
func TestManyAtTheSameTimeConserveMoney(t *testing.T) {
	for _, seed := range seedtest.Seeds(20) {
		for _, store := range []string{"SQLite", "PostgreSQL"} {
			t.Run(fmt.Sprintf("%s/seed=%d", store, seed), func(t *testing.T) {
				c := gather(t, store)
				var all sync.WaitGroup
				for worker := range 8 {
					r := rand.New(rand.NewPCG(seed, uint64(worker)))
					all.Go(func() {
						for step := range 50 {
							c.randomEvent(r, c.ledgers[r.IntN(2)], fmt.Sprint("req_", worker, "_", step))
						}
					})
				}
				all.Wait()
				c.compare()
			})
		}
	}
}

func gather(t *testing.T, store string) *crowd {
	t.Helper()
	c := &crowd{T: t, deposits: map[string]policy.Micro{}, credits: map[string]policy.Micro{}, lost: map[string]policy.Micro{}, charges: map[policy.Account]policy.Micro{}}
	name := filepath.Join(t.TempDir(), "bardo.db")
	if store == "PostgreSQL" {
		name = postgrestest.URL(t)
	}
	for i := range c.ledgers {
		l, err := ledger.Open(t.Context(), name, ledger.Options{Gateway: true, Retention: -1, IdleReturn: 50 * time.Millisecond, Dir: t.TempDir(), Connect: postgres.Connect})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		c.ledgers[i] = l
	}
	for i := range accounts {
		if err := c.ledgers[0].CreateKey(t.Context(), ledger.KeyRow{ID: keyOf(i), Prepaid: true}, 100_000); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func keyOf(i int) policy.Account { return policy.Account(fmt.Sprint("k", i)) }

func walletOf(i int) policy.Account { return pay.Account(pay.Address{byte(1 + i)}) }

// randomEvent runs one random event.
func (c *crowd) randomEvent(r *rand.Rand, l *ledger.Ledger, id string) {
	i, ref := r.IntN(accounts), r.IntN(30)
	switch r.IntN(4) {
	case 0:
		c.deposit(l, keyOf(i), fmt.Sprint("r", ref), policy.Micro(100*(1+r.IntN(2))))
	case 1:
		c.payment(l, walletOf(i), fmt.Sprint("x402:", ref), policy.Micro(fee+500*ref), ref%5 == 0 && r.IntN(2) == 0)
	case 2:
		c.charge(r, l, keyOf(i), id)
	case 3:
		c.charge(r, l, walletOf(i), id)
	}
}

func (c *crowd) deposit(l *ledger.Ledger, to policy.Account, ref string, amount policy.Micro) {
	_, err := l.Deposit(c.Context(), to, amount, ref)
	c.mu.Lock()
	defer c.mu.Unlock()
	key := string(to) + " " + ref
	before, known := c.deposits[key]
	switch {
	case err == nil && known && before != amount:
		c.Errorf("%s: %s and %s are deposited", key, before, amount)
	case err == nil:
		c.deposits[key] = amount
	case !errors.Is(err, ledger.ErrReused):
		c.Errorf("%s: %v", key, err)
	}
}

// payment credits a payment, and takes it back if it is lost.
func (c *crowd) payment(l *ledger.Ledger, to policy.Account, ref string, amount policy.Micro, lost bool) {
	err := l.CreditWallet(c.Context(), to, amount, fee, ref)
	if err == nil && lost {
		_, err = l.TakeBack(c.Context(), to, amount, ref)
	}
	if err != nil {
		c.Errorf("%s %s: %v", to, ref, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credits[string(to)+" "+ref] = amount - fee
	if lost {
		c.lost[string(to)+" "+ref] = amount
	}
}

// charge reserves an amount, and charges a part of it, or nothing. The account may have too little, be blocked, or not exist yet.
func (c *crowd) charge(r *rand.Rand, l *ledger.Ledger, of policy.Account, id string) {
	amount := policy.Micro(1 + r.IntN(3000))
	h, err := l.Reserve(c.Context(), of, id, amount)
	if err != nil {
		return
	}
	if r.IntN(4) == 0 {
		l.Release(h)
		return
	}
	for range 1 + r.IntN(2) { // it may be repeated
		got, err := l.Capture(c.Context(), h, ledger.Charge{RequestID: id, Account: of, Amount: amount / 2})
		if err != nil || got.Charged != amount/2 {
			c.Errorf("%s: %+v, %v, want %s", id, got, err, amount/2)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.charges[of] += amount / 2
}

// compare compares the balances with the expected ones.
func (c *crowd) compare() {
	c.Helper()
	want := map[policy.Account]policy.Micro{}
	for i := range accounts {
		want[keyOf(i)] = 100_000
	}
	for _, sum := range []struct {
		of   map[string]policy.Micro
		sign policy.Micro
	}{{c.deposits, 1}, {c.credits, 1}, {c.lost, -1}} {
		for key, amount := range sum.of {
			var to string
			_, _ = fmt.Sscan(key, &to)
			want[policy.Account(to)] += sum.sign * amount
		}
	}
	for account, amount := range c.charges {
		want[account] -= amount
	}
	if err := c.ledgers[1].Close(); err != nil {
		c.Error(err)
	}
	for account, amount := range want {
		if b, err := c.ledgers[0].Balance(c.Context(), account); err != nil || b.Amount-b.Owed != amount || b.Amount < 0 {
			c.Errorf("%s has %+v, %v, want %s", account, b, err, amount)
		}
	}
	if r, err := c.ledgers[0].Audit(c.Context()); err != nil || !r.OK {
		c.Errorf("%+v, %v", r, err)
	}
	if len(c.deposits) < 10 || len(c.credits) < 10 || len(c.lost) == 0 || len(c.charges) < accounts {
		c.Errorf("%d deposits, %d credits, %d losses, %d charged accounts", len(c.deposits), len(c.credits), len(c.lost), len(c.charges))
	}
}
