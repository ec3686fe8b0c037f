package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
)

func TestCapture(t *testing.T) {
	for _, c := range []struct {
		sentence                string
		balance, hold, amount   policy.Micro
		others                  policy.Micro // held by other requests
		charged, loss, leftOver policy.Micro
	}{
		{"less than its hold frees the rest", 5 * usd, 2 * usd, usd, 0, usd, 0, 4 * usd},
		{"exactly its hold", 5 * usd, 2 * usd, 2 * usd, 0, 2 * usd, 0, 3 * usd},
		{"nothing costs nothing", 5 * usd, 2 * usd, 0, 0, 0, 0, 5 * usd},
		{"more than its hold takes from the balance", 20 * usd, usd, 19 * usd, 0, 19 * usd, 0, usd},
		{"all of the balance", 5 * usd, usd, 5 * usd, 0, 5 * usd, 0, 0},
		{"more than the balance is a loss", 5 * usd, usd, 7 * usd, 0, 5 * usd, 2 * usd, 0},
		{"what others hold is theirs", 5 * usd, usd, 7 * usd, 3 * usd, 2 * usd, 5 * usd, 3 * usd},
		{"a hold of nothing takes from the balance", 5 * usd, 0, usd, 0, usd, 0, 4 * usd},
		{"a key without money only loses", 0, 0, usd, 0, 0, usd, 0},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			l := gateway(t, storePath(t))
			withKey(t, l, "k", c.balance)
			other := reserve(t, l, "k", "other", c.others)
			h := reserve(t, l, "k", "r", c.hold)
			r := capture(t, l, h, c.amount)
			if want := (Receipt{Charged: c.charged, Loss: c.loss, Balance: c.leftOver}); r != want {
				t.Errorf("%+v, want %+v", r, want)
			}
			l.Release(h)
			if h.Amount() != 0 {
				t.Errorf("the hold still has %s", h.Amount())
			}
			wantBalance(t, l, "k", Balance{
				Prepaid: true, Amount: c.leftOver, Held: c.others, Available: c.leftOver - c.others, Blocked: c.loss > 0,
			})
			wantClean(t, l)
			l.Release(other)
			wantBalance(t, l, "k", Balance{Prepaid: true, Amount: c.leftOver, Available: c.leftOver, Blocked: c.loss > 0})
		})
	}
}

func TestCaptureChargesARequestOnce(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", 2*usd)
	first := capture(t, l, h, usd)
	want := first
	want.Repeated = true
	if again := capture(t, l, h, usd); again != want {
		t.Errorf("the same hold again: %+v, want %+v", again, want)
	}
	if again := capture(t, l, reserve(t, l, "k", "r", usd), 2*usd); again != want {
		t.Errorf("another hold of the request: %+v, want %+v", again, want)
	}
	flush(t, l)
	if again := capture(t, l, h, usd); again != want {
		t.Errorf("the same hold when it was applied: %+v, want %+v", again, want)
	}
	capture(t, l, reserve(t, l, "k", "r", usd), usd/2)
	wantBlockMatchesMemory(t, l, "k") // the repetition was detected
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 4 * usd, Available: 4 * usd})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = gateway(t, path)
	capture(t, l, reserve(t, l, "k", "r", usd), usd)
	wantBlockMatchesMemory(t, l, "k")
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 4 * usd, Available: 4 * usd})
	wantClean(t, l)
}

func TestConcurrentCapturesOfARequestChargeItOnce(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", 2*usd)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if _, err := l.Capture(t.Context(), h, Charge{Amount: 3 * usd}); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() { l.Release(h) })
	}
	all.Wait()
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 2 * usd, Available: 2 * usd})
	wantBlockMatchesMemory(t, l, "k")
	wantClean(t, l)
}

func TestARequestIDBelongsToOneKey(t *testing.T) {
	path := storePath(t)
	l, f := breakable(t, path)
	withKey(t, l, "a", usd)
	withKey(t, l, "b", usd)
	capture(t, l, reserve(t, l, "a", "r", 1), 1)
	capture(t, l, reserve(t, l, "b", "r", 1), 1)
	one, other := reserve(t, l, "a", "s", 2), reserve(t, l, "b", "s", 3)
	f.set(errFull) // and while the first charge waits for the store
	capture(t, l, one, 2)
	if r := capture(t, l, other, 3); r.Repeated || r.Charged != 3 {
		t.Errorf("%+v: it got the receipt of another key", r)
	}
	f.set(nil)
	wantWritten(t, l)
	wantBlockMatchesMemory(t, l, "b")
	wantBalance(t, l, "b", Balance{Prepaid: true, Amount: usd, Available: usd})
	b, err := os.ReadFile(chargelog.PrefixOf(l.Path(), l.instance.Load()) + chargelog.RefusedSuffix)
	if err != nil || !strings.Contains(string(b), ErrReused.Error()) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestALossBlocksTheKeyUntilADeposit(t *testing.T) {
	path := storePath(t)
	l, cli := gateway(t, path), tool(t, path)
	withKey(t, l, "k", 5*usd)
	small := reserve(t, l, "k", "small", usd)
	capture(t, l, reserve(t, l, "k", "big", usd), 6*usd)
	l.Release(small)
	_, err := l.Reserve(t.Context(), "k", "next", usd)
	var short *InsufficientError
	if !errors.As(err, &short) || !short.Blocked || short.Available != usd {
		t.Fatalf("%v, want a blocked key with 1 USD", err)
	}
	if _, err := cli.Deposit(t.Context(), "k", usd, "top-up"); err != nil {
		t.Fatal(err)
	}
	reserve(t, l, "k", "next", 2*usd)
	wantClean(t, l)
}

// A balance below its held amount, which only a damaged store has, is not charged a negative amount: the store refuses the charge.
func TestADamagedBalanceIsNotChargedANegativeAmount(t *testing.T) {
	path := storePath(t)
	l, err := open(t.Context(), path, Options{Gateway: true, Retention: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // the damaged balance cannot be written
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	change(t, path, fmt.Sprintf(`UPDATE balance SET micro = micro - %d`, 6*usd))
	if _, err := l.Capture(t.Context(), h, Charge{Amount: 3 * usd}); err != nil {
		t.Fatal(err)
	}
	flush(t, l)
	b, err := os.ReadFile(chargelog.PrefixOf(l.Path(), l.instance.Load()) + chargelog.RefusedSuffix)
	if err != nil || !strings.Contains(string(b), "constraint") {
		t.Errorf("%s, %v", b, err)
	}
}

func TestK34ACallerWhoHangsUpStillPays(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Capture(ctx, h, Charge{Amount: 2 * usd}); err != nil {
		t.Fatal(err)
	}
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 3 * usd, Available: 3 * usd})
}

func TestCaptureAfterReleaseStillCharges(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	l.Release(h)
	if r := capture(t, l, h, 2*usd); r.Charged != 2*usd {
		t.Errorf("%+v", r)
	}
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 3 * usd, Available: 3 * usd})
	wantBlockMatchesMemory(t, l, "k")
}

// TestAReleaseDuringACaptureFreesNothing that the charge is about to take.
func TestAReleaseDuringACaptureFreesNothing(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	h.beginCapture(time.Now())
	if l.Release(h); h.Amount() != usd {
		t.Errorf("%s is left to the charge", h.Amount())
	}
	if h.abandonCapture(); h.Amount() != 0 {
		t.Errorf("%s is held for ever", h.Amount())
	}
	wantBlockMatchesMemory(t, l, "k")
}

// TestMoneyOfALostBlockIsNotFree: others have returned it.
func TestMoneyOfALostBlockIsNotFree(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	released, charged := reserve(t, l, "k", "r", usd), reserve(t, l, "k", "s", usd)
	charged.beginCapture(time.Now())
	p := charged.pay(&Charge{Amount: usd}, false)
	a := l.account("k")
	a.dropFree()
	l.Release(released)
	p.settle(ErrReused)
	if a.hasFree() {
		t.Error("money is reserved that another gateway may have given out")
	}
}

func TestChargesOutOfRangeAreRefused(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", usd)
	h := reserve(t, l, "k", "r", usd)
	for _, c := range []Charge{{Amount: -1}, {Amount: maxAmount + 1}, {ProviderCost: -1}} {
		if _, err := l.Capture(t.Context(), h, c); !errors.Is(err, ErrAmount) {
			t.Errorf("capture %+v: %v, want ErrAmount", c, err)
		}
		if err := l.Record(c); !errors.Is(err, ErrAmount) {
			t.Errorf("record %+v: %v, want ErrAmount", c, err)
		}
	}
	if h.Amount() != usd {
		t.Error("a refused charge ended its hold")
	}
}

func TestManyKeysConcurrently(t *testing.T) {
	l := gateway(t, storePath(t))
	const keys, requests = 8, 40
	var all sync.WaitGroup
	for k := range keys {
		id := policy.Account(fmt.Sprint("k", k))
		withKey(t, l, id, requests*1000)
		for r := range requests {
			all.Go(func() {
				h, err := l.Reserve(t.Context(), id, fmt.Sprint(id, "-", r), 1000)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := l.Capture(t.Context(), h, Charge{Amount: 900}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	for k := range keys {
		id := policy.Account(fmt.Sprint("k", k))
		wantBalance(t, l, id, Balance{Prepaid: true, Amount: requests * 100, Available: requests * 100})
		wantBlockMatchesMemory(t, l, id)
	}
	wantClean(t, l)
}

// wantBlockMatchesMemory compares a key's block in the store with its state in memory.
func wantBlockMatchesMemory(t testing.TB, l *Ledger, id policy.Account) {
	t.Helper()
	flush(t, l)
	a := l.account(id)
	a.mu.Lock()
	memory := a.free + a.held
	a.mu.Unlock()
	var block policy.Micro
	err := l.reads.QueryRowContext(t.Context(), `SELECT coalesce(sum(k.micro), 0) FROM block k JOIN account a ON a.id = k.account
WHERE a.name = ? AND k.instance = ?`, id, l.instance.Load()).Scan(&block)
	if err != nil {
		t.Fatal(err)
	}
	if block != memory {
		t.Errorf("the block of %s is %s, memory says %s", id, block, memory)
	}
}

// flush applies the entries of the charge log.
func flush(t testing.TB, l *Ledger) {
	t.Helper()
	if err := l.do(func(*book) error { return nil }, nil); err != nil {
		t.Fatal(err)
	}
}
