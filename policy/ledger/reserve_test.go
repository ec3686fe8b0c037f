package ledger

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/policy"
)

func TestReserveRefuses(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	withKey(t, l, "poor", 1)
	if err := l.CreateKey(t.Context(), KeyRow{ID: "metered"}, 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sentence string
		l        *Ledger
		key      policy.Account
		amount   policy.Micro
		want     error
	}{
		{"an unknown key", l, "nobody", 1, ErrUnknownKey},
		{"an unknown key, for an amount of zero", l, "nobody", 0, ErrUnknownKey},
		{"a metered key", l, "metered", 1, ErrMetered},
		{"a negative amount", l, "poor", -1, ErrAmount},
		{"an absurd amount", l, "poor", maxAmount + 1, ErrAmount},
		{"a tool", tool(t, path), "poor", 1, ErrNotGateway},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			if _, err := c.l.Reserve(t.Context(), c.key, "r", c.amount); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// TestReserveNow uses only money in memory.
func TestReserveNow(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	if _, ok := l.ReserveNow("k", "cold", 1); ok || l.Immediate("k") {
		t.Error("a key without a block")
	}
	reserve(t, l, "k", "first", usd/100)
	h, ok := l.ReserveNow("k", "second", usd/100)
	if !ok || h.Amount() != usd/100 || !l.Immediate("k") {
		t.Fatalf("ok %v, hold %v", ok, h)
	}
	if open, held := l.Holds(); open != 2 || held != usd/50 {
		t.Errorf("%d holds of %d", open, held)
	}
	for _, amount := range []policy.Micro{-1, 5 * usd, maxAmount + 1} {
		if _, ok := l.ReserveNow("k", "third", amount); ok {
			t.Errorf("%d is reserved", amount)
		}
	}
	l.Release(h)
	if open, held := l.Holds(); open != 1 || held != usd/100 {
		t.Errorf("after a release %d holds of %d", open, held)
	}
	if l.SetDurable(true); l.Immediate("k") {
		t.Error("charges that wait for the disk")
	}
}

// TestExtendAddsToAHold, or changes nothing.
func TestExtendAddsToAHold(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", 2*usd)
	if err := l.Extend(t.Context(), h, usd); err != nil || h.Amount() != 3*usd {
		t.Fatalf("%v, a hold of %d", err, h.Amount())
	}
	for _, more := range []policy.Micro{2*usd + 1, -1, maxAmount} {
		if err := l.Extend(t.Context(), h, more); err == nil || h.Amount() != 3*usd {
			t.Errorf("%d more: %v, a hold of %d", more, err, h.Amount())
		}
	}
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 5 * usd, Held: 3 * usd, Available: 2 * usd})
	reserve(t, l, "k", "other", 2*usd)
	if r := capture(t, l, h, 2*usd); r.Charged != 2*usd {
		t.Errorf("%+v", r)
	}
	if err := l.Extend(t.Context(), h, usd/2); err == nil || h.Amount() != 0 {
		t.Errorf("after its end: %v, a hold of %d", err, h.Amount())
	}
	wantClean(t, l)
}

func TestReserveRefusesMoreThanThereIs(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	reserve(t, l, "k", "first", 3*usd)
	_, err := l.Reserve(t.Context(), "k", "second", 2*usd+1)
	var short *InsufficientError
	if !errors.As(err, &short) {
		t.Fatalf("%v, want an InsufficientError", err)
	}
	if want := (InsufficientError{Account: "k", Needed: 2*usd + 1, Available: 2 * usd}); *short != want {
		t.Errorf("%+v, want %+v", *short, want)
	}
	reserve(t, l, "k", "third", 2*usd)
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 5 * usd, Held: 5 * usd})
}

func TestReserveUsesTheCredit(t *testing.T) {
	l := gateway(t, storePath(t))
	if err := l.CreateKey(t.Context(), KeyRow{ID: "k", Prepaid: true, Credit: 2 * usd}, usd); err != nil {
		t.Fatal(err)
	}
	h := reserve(t, l, "k", "r", 3*usd)
	if r := capture(t, l, h, 3*usd); r != (Receipt{Charged: 3 * usd, Balance: -2 * usd}) {
		t.Errorf("%+v", r)
	}
	if _, err := l.Reserve(t.Context(), "k", "r2", 1); err == nil {
		t.Error("the credit is used up, but a reserve was granted")
	}
	wantClean(t, l)
}

func TestK70FiveRequestsAndMoneyForOne(t *testing.T) {
	for round := range 20 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			l := gateway(t, storePath(t))
			withKey(t, l, "k", usd)
			var wins, losses int
			var mu sync.Mutex
			var all sync.WaitGroup
			for i := range 5 {
				all.Go(func() {
					_, err := l.Reserve(t.Context(), "k", fmt.Sprint(i), usd)
					mu.Lock()
					defer mu.Unlock()
					var short *InsufficientError
					switch {
					case err == nil:
						wins++
					case errors.As(err, &short):
						losses++
					default:
						t.Error(err)
					}
				})
			}
			all.Wait()
			if wins != 1 || losses != 4 {
				t.Errorf("%d were granted and %d refused, want 1 and 4", wins, losses)
			}
		})
	}
}

// TestK70ThreeHundredOfAThousand concurrent requests are served for a key that has money for 300. If each costs what it reserves, exactly 300 are served; if they cost
// less, never more than the balance covers.
func TestK70ThreeHundredOfAThousand(t *testing.T) {
	const most, balance = 1000, 300 * 1000
	for name, cost := range map[string]policy.Micro{"all of the reserve": most, "less": 400} {
		t.Run(name, func(t *testing.T) {
			l := gateway(t, storePath(t))
			withKey(t, l, "k", balance)
			var served atomic.Int64
			var all sync.WaitGroup
			for i := range 1000 {
				all.Go(func() {
					h, err := l.Reserve(t.Context(), "k", fmt.Sprint(i), most)
					if _, short := errors.AsType[*InsufficientError](err); short {
						return
					}
					if err == nil {
						_, err = l.Capture(t.Context(), h, Charge{Amount: cost})
					}
					if err != nil {
						t.Error(err)
					}
					served.Add(1)
				})
			}
			all.Wait()
			n := policy.Micro(served.Load())
			if n < 300 || n*cost > balance || cost == most && n != 300 {
				t.Errorf("%d were served, at %d", n, cost)
			}
			wantBalance(t, l, "k", Balance{Prepaid: true, Amount: balance - n*cost, Available: balance - n*cost})
			wantClean(t, l)
		})
	}
}

func TestAllSmallReservesThatFitAreGranted(t *testing.T) {
	l := gateway(t, storePath(t))
	const n = 400
	withKey(t, l, "k", n*1000)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if _, err := l.Reserve(t.Context(), "k", fmt.Sprint(i), 1000); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: n * 1000, Held: n * 1000})
}

func TestK71ADepositOfAnotherProcessCountsAtOnce(t *testing.T) {
	path := storePath(t)
	l, cli := gateway(t, path), tool(t, path)
	withKey(t, l, "k", usd)
	reserve(t, l, "k", "first", usd)
	if _, err := l.Reserve(t.Context(), "k", "second", usd); err == nil {
		t.Fatal("granted without money")
	}
	if balance, err := cli.Deposit(t.Context(), "k", usd, "top-up"); err != nil || balance != 2*usd {
		t.Fatalf("deposit: %s, %v", balance, err)
	}
	reserve(t, l, "k", "second", usd)
	wantBalance(t, cli, "k", Balance{Prepaid: true, Amount: 2 * usd, Held: 2 * usd})
	wantClean(t, cli)
}

func TestK71ARefusedKeyIsServedAgainAfterARelease(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", usd)
	h := reserve(t, l, "k", "first", usd)
	if _, err := l.Reserve(t.Context(), "k", "second", usd); err == nil {
		t.Fatal("granted without money")
	}
	l.Release(h)
	l.Release(h)
	l.Release(nil)
	reserve(t, l, "k", "second", usd)
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: usd, Held: usd})
}

func TestAReserveOutOfTheBlockWritesNothing(t *testing.T) {
	path := storePath(t)
	l, other := gateway(t, path), tool(t, path)
	withKey(t, l, "k", 10*usd)
	l.Release(reserve(t, l, "k", "first", 1000))
	before := dataVersion(t, other)
	for i := range 100 {
		l.Release(reserve(t, l, "k", fmt.Sprint(i), 1000))
	}
	if after := dataVersion(t, other); after != before {
		t.Error("reserves that the block covers were written")
	}
}

// dataVersion changes with every commit of another handle.
func dataVersion(t *testing.T, l *Ledger) (v int64) {
	t.Helper()
	err := l.do(func(b *book) (err error) { v, err = b.Version(); return err }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestABlockIsBounded(t *testing.T) {
	for _, c := range []struct {
		sentence              string
		need, available, want policy.Micro
		shared, short         bool
	}{
		{"a rich key's block is bounded", 1, 1000 * usd, blockMax, false, false},
		{"an eighth in between", 1, 16 * usd, 2 * usd, false, false},
		{"a poor key's block has a minimum size", 1, usd, blockMin, false, false},
		{"but not more than there is", 1, 100, 100, false, false},
		{"nor less than is needed", 20 * usd, 21 * usd, 20 * usd, false, false},
		{"even when there is too little", 20 * usd, usd, usd, false, false},
		{"nothing comes from a debt", 1, -5, 0, false, false},
		{"nothing is needed", 0, usd, 0, false, false},
		{"no minimum size if others have blocks", 1, usd, usd / 8, true, false},
		{"after a gateway was short, only the needed amount", 7, 1000 * usd, 7, true, true},
		{"or what there is", 7, 3, 3, false, true},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			if have := blockSize(c.need, c.available, c.shared, c.short); have != c.want {
				t.Errorf("%s, want %s", have, c.want)
			}
		})
	}
}

func TestAnIdleKeysBlockIsReturned(t *testing.T) {
	path := storePath(t)
	l := openWith(t, path, Options{Gateway: true, IdleReturn: 10 * time.Millisecond})
	cli := tool(t, path)
	withKey(t, l, "k", 10*usd)
	open := reserve(t, l, "k", "open", 1000)
	l.Release(reserve(t, l, "k", "ended", 1000))
	held := func(want policy.Micro) func() bool {
		return func() bool {
			b, err := cli.Balance(t.Context(), "k")
			return err == nil && b.Held == want
		}
	}
	eventually(t, "only the open hold is held", held(1000))
	l.Release(open)
	eventually(t, "nothing is held", held(0))
	reserve(t, l, "k", "again", 10*usd)
	wantClean(t, cli)
}

func TestHoldsAreCountedUntilTheyEnd(t *testing.T) {
	var commits, operations atomic.Int64
	l := openWith(t, storePath(t), Options{Gateway: true, Committed: func(_ time.Duration, n int) {
		commits.Add(1)
		operations.Add(int64(n))
	}})
	withKey(t, l, "k", 10*usd)
	first, second := reserve(t, l, "k", "r1", usd), reserve(t, l, "k", "r2", 2*usd)
	if open, held := l.Holds(); open != 2 || held != 3*usd {
		t.Errorf("%d holds of %s, want 2 of 3.000000", open, held)
	}
	l.Release(first)
	l.Release(first)
	capture(t, l, second, usd)
	l.Release(second)
	if open, held := l.Holds(); open != 0 || held != 0 {
		t.Errorf("%d holds of %s are left", open, held)
	}
	if commits.Load() == 0 || operations.Load() < commits.Load() {
		t.Errorf("%d commits of %d operations were counted", commits.Load(), operations.Load())
	}
}
