package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/lock"
)

// pair opens two gateways on one store, which keep their blocks until the other one needs money.
func pair(t *testing.T) (path string, a, b *Ledger) {
	t.Helper()
	path = storePath(t)
	return path, sharing(t, path), sharing(t, path)
}

func sharing(t testing.TB, path string) *Ledger {
	t.Helper()
	return openWith(t, path, Options{Gateway: true, IdleReturn: time.Hour, Poll: 2 * time.Millisecond})
}

// kill ends a gateway as SIGKILL does: nothing is returned, and the system releases the lock.
func kill(t testing.TB, l *Ledger) {
	t.Helper()
	l.closed = func() error { return nil }
	close(l.stop)
	l.janitor.Wait()
	l.writer.Stop()
	if err := l.release(); err != nil && !errors.Is(err, errDead) {
		t.Error(err)
	}
}

// pauseWriter keeps a gateway from writing until resume is called.
func pauseWriter(t *testing.T, l *Ledger) (resume func()) {
	t.Helper()
	paused, resumed, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() { done <- l.between(func(*book) error { close(paused); <-resumed; return nil }) }()
	<-paused
	return func() {
		t.Helper()
		close(resumed)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// refused checks that a reserve of the key fails for lack of money.
func refused(t *testing.T, l *Ledger, amount policy.Micro) *InsufficientError {
	t.Helper()
	_, err := l.Reserve(t.Context(), "k", "refused", amount)
	var short *InsufficientError
	if !errors.As(err, &short) {
		t.Fatalf("%s: %v, want an InsufficientError", amount, err)
	}
	return short
}

func TestTwoGatewaysChargeOneBalance(t *testing.T) {
	path, a, b := pair(t)
	withKey(t, a, "k", 5*usd)
	first, second := reserve(t, a, "k", "first", usd), reserve(t, b, "k", "second", usd)
	wantClean(t, tool(t, path))
	capture(t, a, first, usd)
	flush(t, a)
	poll(t, b)
	if r := capture(t, b, second, usd); r != (Receipt{Charged: usd, Balance: 3 * usd}) {
		t.Errorf("%+v", r)
	}
	for _, l := range []*Ledger{a, b} {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cli := tool(t, path)
	wantBalance(t, cli, "k", Balance{Prepaid: true, Amount: 3 * usd, Available: 3 * usd})
	wantClean(t, cli)
	if left, err := filepath.Glob(b.Path() + ".[0-9]*.lock"); err != nil || len(left) != 0 {
		t.Errorf("lock files are left: %q, %v", left, err)
	}
}

func TestAGatewayReturnsMoneyThatAnotherNeeds(t *testing.T) {
	path, a, b := pair(t)
	withKey(t, a, "k", 5*usd)
	a.Release(reserve(t, a, "k", "ended", 4*usd)) // it stays in a's block
	open := reserve(t, a, "k", "open", usd)
	h := reserve(t, b, "k", "all the rest", 4*usd)
	wantBalance(t, a, "k", Balance{Prepaid: true, Amount: 5 * usd, Held: 5 * usd})
	if short := refused(t, a, 1); short.Available != 0 {
		t.Errorf("%+v", short)
	}
	capture(t, a, open, usd)
	capture(t, b, h, 3*usd)
	reserve(t, a, "k", "what the other request did not cost", usd)
	wantClean(t, tool(t, path))
}

func TestACaptureAboveItsHoldAsksTheOthersBeforeItIsALoss(t *testing.T) {
	path, a, b := pair(t)
	withKey(t, a, "k", 5*usd)
	h := reserve(t, b, "k", "r", usd)
	a.Release(reserve(t, a, "k", "ended", 4*usd-blockMin))
	if r := capture(t, b, h, 5*usd); r != (Receipt{Charged: 5 * usd}) {
		t.Errorf("%+v", r)
	}
	wantClean(t, tool(t, path))
}

func TestK70FiveRequestsAndMoneyForOneOverTwoGateways(t *testing.T) {
	for round := range 10 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			path, a, b := pair(t)
			withKey(t, a, "k", usd)
			b.Release(reserve(t, b, "k", "held by one of them at first", usd/2))
			var wins, losses atomic.Int64
			var all sync.WaitGroup
			for i := range 5 {
				l := []*Ledger{a, b}[i%2]
				all.Go(func() {
					_, err := l.Reserve(t.Context(), "k", fmt.Sprint(i), usd)
					var short *InsufficientError
					switch {
					case err == nil:
						wins.Add(1)
					case errors.As(err, &short):
						losses.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			all.Wait()
			if wins.Load() != 1 || losses.Load() != 4 {
				t.Errorf("%d were granted and %d refused, want 1 and 4", wins.Load(), losses.Load())
			}
			wantClean(t, tool(t, path))
		})
	}
}

func TestARefusalDoesNotWaitForGatewaysThatHaveAnswered(t *testing.T) {
	path := storePath(t)
	a := sharing(t, path)
	b := openWith(t, path, Options{Gateway: true, IdleReturn: time.Hour, Poll: 2 * time.Millisecond, ReserveWait: time.Hour})
	withKey(t, a, "k", 5*usd)
	reserve(t, a, "k", "open", 4*usd)
	if short := refused(t, b, 2*usd); short.Available != usd {
		t.Errorf("%+v", short)
	}
	if short := refused(t, b, 2*usd); short.Available != usd {
		t.Errorf("again: %+v", short)
	}
}

func TestAReserveWaitsNoLongerThanReserveWaitOrItsContext(t *testing.T) {
	path := storePath(t)
	deaf := openWith(t, path, Options{Gateway: true, IdleReturn: time.Hour, Poll: time.Hour})
	b := openWith(t, path, Options{Gateway: true, ReserveWait: 50 * time.Millisecond})
	withKey(t, deaf, "k", 5*usd)
	deaf.Release(reserve(t, deaf, "k", "ended", 5*usd))
	refused(t, b, usd)
	ctx, cancel := context.WithCancel(t.Context())
	patient := openWith(t, path, Options{Gateway: true, ReserveWait: time.Hour})
	left := make(chan error, 1)
	go func() {
		_, err := patient.Reserve(ctx, "k", "left", usd)
		left <- err
	}()
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's error", err)
	}
}

func TestABlockedKeyIsBlockedEverywhere(t *testing.T) {
	path, a, b := pair(t)
	withKey(t, a, "k", 20*usd)
	b.Release(reserve(t, b, "k", "b has a block", usd))
	capture(t, a, reserve(t, a, "k", "loss", usd), 30*usd)
	eventually(t, "the other gateway refuses too", func() bool {
		h, err := b.Reserve(t.Context(), "k", "next", 1)
		b.Release(h)
		var short *InsufficientError
		return errors.As(err, &short) && short.Blocked
	})
	if _, err := tool(t, path).Deposit(t.Context(), "k", usd, "top-up"); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Ledger{a, b} {
		l.Release(reserve(t, l, "k", "served again", usd))
	}
	wantClean(t, a)
}

func TestSpentOfOtherGatewaysIsSeen(t *testing.T) {
	_, a, b := pair(t)
	withKey(t, a, "k", 20*usd)
	now := time.Now()
	for i, l := range []*Ledger{a, b, a} {
		capture(t, l, reserve(t, l, "k", fmt.Sprint(i), usd), usd)
		for _, reader := range []*Ledger{a, b} {
			eventually(t, "the charge is seen", func() bool {
				sum, err := reader.SpentSince(t.Context(), "k", now)
				return err == nil && sum == policy.Micro(i+1)*usd
			})
		}
	}
}

func TestARevocationReachesTheOtherGateway(t *testing.T) {
	_, a, b := pair(t)
	withKey(t, a, "k", usd)
	eventually(t, "the key is there", func() bool { _, ok, err := b.Key(t.Context(), "k"); return ok && err == nil })
	before := b.Generation()
	if err := a.RevokeKey(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the generation moved", func() bool { return b.Generation() != before })
	if k, _, err := b.Key(t.Context(), "k"); err != nil || !k.Revoked() {
		t.Errorf("%+v, %v", k, err)
	}
}

func TestARunningGatewayRecoversADeadOne(t *testing.T) {
	_, a, b := pair(t)
	withKey(t, a, "k", 5*usd)
	capture(t, a, reserve(t, a, "k", "paid", usd), usd)
	reserve(t, a, "k", "open", 4*usd)
	kill(t, a)
	reserve(t, b, "k", "after a second at most", 4*usd)
	if left, err := filepath.Glob(b.Path() + ".[0-9]*.lock"); err != nil || len(left) != 1 {
		t.Errorf("lock files: %q, %v, want the living one's", left, err)
	}
	wantClean(t, b)
}

func TestOpenRecoversDeadGateways(t *testing.T) {
	path, a, b := pair(t)
	withKey(t, a, "k", 5*usd)
	reserve(t, a, "k", "open", 3*usd)
	h := reserve(t, b, "k", "open too", usd)
	kill(t, a)
	cli := tool(t, path)
	wantBalance(t, cli, "k", Balance{Prepaid: true, Amount: 5 * usd, Held: usd, Available: 4 * usd})
	capture(t, b, h, usd)
	wantClean(t, cli)
}

func TestADeadGatewaysBlocksAreReturnedOnce(t *testing.T) {
	path, a, b := pair(t)
	withKey(t, a, "k", 5*usd)
	reserve(t, a, "k", "lost", 2*usd)
	open := reserve(t, b, "k", "open", 3*usd)
	dead := a.instance.Load()
	kill(t, a)
	var all sync.WaitGroup
	for range 8 {
		l := tool(t, path)
		all.Go(func() {
			if err := l.write(func(b *book) error { return b.removeDead([]int64{dead}) }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantBalance(t, tool(t, path), "k", Balance{Prepaid: true, Amount: 5 * usd, Held: 3 * usd, Available: 2 * usd})
	capture(t, b, open, 3*usd)
	wantClean(t, b)
}

func TestAnInstanceIDIsNeverReused(t *testing.T) {
	path := storePath(t)
	seen := map[int64]bool{}
	for range 5 {
		l := sharing(t, path)
		if n := l.instance.Load(); seen[n] {
			t.Errorf("number %d was given twice", n)
		}
		seen[l.instance.Load()] = true
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnInstanceIDWhoseLockIsTakenIsSkipped(t *testing.T) {
	path := storePath(t)
	foreign := lock.File{Path: lockOf(path, 1)}
	if ok, err := foreign.Try(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	l := sharing(t, path)
	if n := l.instance.Load(); n != 2 {
		t.Errorf("number %d, want 2", n)
	}
	withKey(t, l, "k", usd)
	capture(t, l, reserve(t, l, "k", "r", usd), usd)
	if err := foreign.Release(); err != nil {
		t.Fatal(err)
	}
	wantClean(t, l)
}

func TestAGatewayWhoseLockFileIsRemovedKeepsTheBooksRight(t *testing.T) {
	path, a, b := pair(t)
	withKey(t, a, "k", 5*usd)
	open := reserve(t, a, "k", "open", 2*usd)
	large := reserve(t, a, "k", "open too", 3*usd)
	old := a.instance.Load()
	resume := pauseWriter(t, a) // so that a does not check its lock before the tool does
	if err := errors.Join(os.Remove(lockOf(path, old)), os.Remove(chargelog.PrefixOf(path, old)+chargelog.Suffix(0))); err != nil {
		t.Fatal(err)
	}
	cli := tool(t, path) // considers a dead
	resume()
	taken := reserve(t, b, "k", "backed", 2*usd)
	capture(t, a, open, 2*usd)
	capture(t, a, large, 3*usd)
	flush(t, a)
	if r, err := cli.Request(t.Context(), "k", "open too"); err != nil || r.Charged != usd {
		t.Errorf("more than is left: %+v, %v", r, err)
	}
	capture(t, b, taken, 2*usd)
	wantClean(t, cli)
	eventually(t, "a has a lock again", func() bool { return a.instance.Load() != old })
	if _, err := cli.Deposit(t.Context(), "k", 3*usd, "top-up"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a has a charge log again", func() bool { return a.Writable() == nil })
	capture(t, a, reserve(t, a, "k", "afterwards", 3*usd), 3*usd)
	wantBalance(t, cli, "k", Balance{Prepaid: true})
	wantBlockMatchesMemory(t, a, "k")
	wantClean(t, cli)
}

func TestAGatewayWithARemovedLockFileKeepsItsBlocks(t *testing.T) {
	path := storePath(t)
	a := sharing(t, path)
	withKey(t, a, "k", 5*usd)
	h := reserve(t, a, "k", "open", 2*usd)
	old := a.instance.Load()
	if err := os.Remove(lockOf(a.Path(), old)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a has a lock again", func() bool { return a.instance.Load() != old })
	b := sharing(t, path)
	refused(t, b, 4*usd)
	if r := capture(t, a, h, 2*usd); r.Charged != 2*usd {
		t.Errorf("%+v", r)
	}
	wantBlockMatchesMemory(t, a, "k")
	wantClean(t, b)
}

func TestTheSameStoreByAnotherNameIsTheSameStore(t *testing.T) {
	path := storePath(t)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	a := sharing(t, path)
	withKey(t, a, "k", usd)
	h := reserve(t, a, "k", "open", usd)
	b := sharing(t, link)
	refused(t, b, usd)
	if a.Path() != b.Path() {
		t.Errorf("%s and %s", a.Path(), b.Path())
	}
	capture(t, a, h, usd)
	wantClean(t, b)
}

func TestManyMayOpenANewStoreConcurrently(t *testing.T) {
	path := missingStore(t)
	var all sync.WaitGroup
	var first atomic.Int64
	for i := range 6 {
		all.Go(func() {
			l, err := openWithRetry(t, path, Options{Gateway: i%2 == 0})
			if err != nil {
				t.Error(err)
				return
			}
			created, err := l.CreateFirstKey(t.Context(), KeyRow{ID: policy.Account(fmt.Sprint("first", i))})
			if err != nil {
				t.Error(err)
			}
			if created {
				first.Add(1)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	keys, err := tool(t, path).Keys(t.Context())
	if err != nil || len(keys) != 1 || first.Load() != 1 {
		t.Errorf("%d keys, %v, and %d were reported as created, want one", len(keys), err, first.Load())
	}
}

// openWithRetry is Open for one of several that create the store: on a busy machine it may wait longer for the others than Open does, so it retries.
func openWithRetry(t *testing.T, path string, o Options) (l *Ledger, err error) {
	t.Helper()
	for end := time.Now().Add(polltest.Patience); time.Now().Before(end); {
		if l, err = open(t.Context(), path, o); !errors.Is(err, ErrInUse) {
			break
		}
	}
	return l, err
}
