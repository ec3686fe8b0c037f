package book

import (
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
	"bardo.money/gateway/policy/pay"
)

func TestMain(m *testing.M) {
	code := m.Run()
	postgrestest.StopShared()
	os.Exit(code)
}

// inBoth runs a test on a new store in a file and on one in PostgreSQL.
func inBoth(t *testing.T, test func(t *testing.T, at Place)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { test(t, InFile(filepath.Join(t.TempDir(), "payments.db"))) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, database(t)) })
}

// database is a new store in PostgreSQL.
func database(t *testing.T) Place {
	t.Helper()
	return Beside(postgrestest.URL(t), filepath.Join(t.TempDir(), "ledger"), postgres.Connect)
}

// elsewhere is the place of the same store on another machine.
func elsewhere(t *testing.T, at Place) Place {
	t.Helper()
	if at.File == "" {
		at.Dir = t.TempDir()
	}
	return at
}

func open(t *testing.T, at Place) *Book {
	t.Helper()
	b, err := Open(t.Context(), at, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

var (
	terms = &pay.Terms{Network: pay.Network{ID: 8453, Name: "base"}, Fee: 1000}
	one   = &pay.Payment{Authorization: pay.Authorization{From: pay.Address{1}, Value: 5000, ValidBefore: 1 << 39, Nonce: pay.Word{2}}, Signature: make([]byte, 65)}
)

// TestPitfall1AndTwoBooksOfOneStore: while a gateway runs, another one neither reserves nor changes its payments; afterwards, it takes them over.
func TestPitfall1AndTwoBooksOfOneStore(t *testing.T) {
	inBoth(t, func(t *testing.T, at Place) {
		t.Helper()
		a, b := open(t, at), open(t, elsewhere(t, at))
		p, err := a.Reserve(t.Context(), terms, one, "req_1", 7, Limits{})
		if err != nil || p.Service != Serving || p.FromBlock != 7 || p.Fee != 1000 {
			t.Fatalf("%+v, %v", p, err)
		}
		if again, err := a.Reserve(t.Context(), terms, one, "req_1", 7, Limits{}); err != nil || again.ID != p.ID {
			t.Errorf("the same reservation, repeated: %+v, %v", again, err)
		}
		if _, err := b.Reserve(t.Context(), terms, one, "req_2", 8, Limits{}); !errors.Is(err, ErrInUse) {
			t.Errorf("reserved twice: %v", err)
		}
		if err := b.MarkServed(t.Context(), p.ID, 1, 1); !errors.Is(err, ErrLost) {
			t.Errorf("served by another gateway: %v", err)
		}
		if err := b.Release(t.Context(), p.ID); err != nil {
			t.Fatal(err)
		}
		if left, err := b.Adopt(t.Context(), true, always); len(left) != 0 || err != nil {
			t.Errorf("a gateway that runs lost %+v, %v", left, err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := b.Adopt(t.Context(), false, always); len(left) != 0 || err != nil {
			t.Errorf("it was asked for its own alone: %+v, %v", left, err)
		}
		left, err := b.Adopt(t.Context(), true, always)
		if len(left) != 1 || err != nil || left[0].Request != "req_1" {
			t.Fatalf("%+v, %v", left, err)
		}
		reuse(t, b, p.ID)
	})
}

// reuse releases a payment and reserves it for another request.
func reuse(t *testing.T, b *Book, id int64) {
	t.Helper()
	if err := b.Release(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	other := *one
	other.ValidBefore++
	var r *pay.Refusal
	if _, err := b.Reserve(t.Context(), terms, &other, "req_3", 8, Limits{}); !errors.As(err, &r) || r.Reason != pay.ReasonNonceUsed {
		t.Errorf("another authorization of the nonce: %v", err)
	}
	if p, err := b.Reserve(t.Context(), terms, one, "req_4", 9, Limits{}); err != nil || p.Request != "req_4" {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestPitfall2AServedPaymentIsReservedNoMore by any gateway.
func TestPitfall2AServedPaymentIsReservedNoMore(t *testing.T) {
	inBoth(t, func(t *testing.T, at Place) {
		t.Helper()
		a, b := open(t, at), open(t, elsewhere(t, at))
		p, err := a.Reserve(t.Context(), terms, one, "req_1", 1, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.MarkServed(t.Context(), p.ID, 1, 1); err != nil {
			t.Fatal(err)
		}
		for _, book := range []*Book{a, b} {
			if got, err := book.Reserve(t.Context(), terms, one, "req_2", 1, Limits{}); !errors.Is(err, ErrSpent) || got.Request != "req_1" {
				t.Errorf("%+v, %v", got, err)
			}
		}
	})
}

// TestPitfall1ManyReserveAtTheSameTime: one of many reserves a payment, and all together stay within a payer's exposure.
func TestPitfall1ManyReserveAtTheSameTime(t *testing.T) {
	inBoth(t, func(t *testing.T, at Place) {
		t.Helper()
		books := []*Book{open(t, at), open(t, elsewhere(t, at))}
		var same, exposed atomic.Int64
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if _, err := books[i%2].Reserve(t.Context(), terms, one, fmt.Sprint("req_", i), 1, Limits{}); err == nil {
					same.Add(1)
				} else if !errors.Is(err, ErrInUse) {
					t.Error(err)
				}
				other := *one
				other.From, other.Nonce = pay.Address{9}, pay.Word{byte(i)}
				var r *pay.Refusal
				if _, err := books[i%2].Reserve(t.Context(), terms, &other, fmt.Sprint("req_x", i), 1, Limits{Exposure: 15_000}); err == nil {
					exposed.Add(1)
				} else if !errors.As(err, &r) || r.Reason != pay.ReasonExposure {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if same.Load() != 1 || exposed.Load() != 3 {
			t.Errorf("%d have the same payment, %d of 3 of another payer were taken", same.Load(), exposed.Load())
		}
	})
}

// TestOneGatewaySettles, until it ends or yields.
func TestOneGatewaySettles(t *testing.T) {
	inBoth(t, func(t *testing.T, at Place) {
		t.Helper()
		a, b := open(t, at), open(t, elsewhere(t, at))
		claims := func(of *Book, want bool) {
			t.Helper()
			if ok, err := of.Claim(t.Context()); ok != want || err != nil {
				t.Fatalf("it settles: %v, want %v, %v", ok, want, err)
			}
		}
		claims(a, true)
		claims(a, true)
		claims(b, false)
		if err := a.Yield(t.Context()); err != nil {
			t.Fatal(err)
		}
		claims(b, true)
		claims(a, false)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		claims(a, true)
	})
}

// TestAFileOfAGatewayThatWasKilledIsRemoved, and another one takes over its payments immediately, also in a database: the expiry of a lease is not awaited if the
// end of its gateway is known.
func TestAFileOfAGatewayThatWasKilledIsRemoved(t *testing.T) {
	inBoth(t, func(t *testing.T, at Place) {
		t.Helper()
		a := open(t, at)
		if ok, err := a.Claim(t.Context()); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if _, err := a.Reserve(t.Context(), terms, one, "req_1", 7, Limits{}); err != nil {
			t.Fatal(err)
		}
		a.kill(t)
		b := open(t, at)
		if left, err := b.Adopt(t.Context(), true, always); len(left) != 1 || err != nil {
			t.Errorf("%+v, %v", left, err)
		}
		if ok, err := b.Claim(t.Context()); !ok || err != nil {
			t.Error(ok, err)
		}
		dir := at.Dir
		if at.File != "" {
			dir = filepath.Dir(at.File)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*.alive")); len(left) != 1 || err != nil {
			t.Errorf("%v, %v", left, err)
		}
	})
}

// kill ends a gateway like a signal: the system releases its locks, and nothing is written.
func (b *Book) kill(t *testing.T) {
	t.Helper()
	switch p := b.peers.(type) {
	case *files:
		if err := errors.Join(p.alive.Release(), p.settler.Release()); err != nil {
			t.Fatal(err)
		}
	case *leases:
		p.stop()
		<-p.done
		if err := p.alive.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

// expireLease lets the lease of a running gateway expire.
func (b *Book) expireLease(t *testing.T) {
	t.Helper()
	l, ok := b.peers.(*leases)
	if !ok {
		t.Fatal("it has no lease")
	}
	l.stop()
	<-l.done
	if _, err := b.exec(t.Context(), `UPDATE payment_gateway SET at = at - ?1 WHERE id = ?2`, (leaseTime + time.Second).Microseconds(), b.holder); err != nil {
		t.Fatal(err)
	}
}

// TestALeaseThatIsOverIsFenced: a gateway of another machine takes over the payments and the settlements of one whose lease has expired, which can change
// neither any more, but takes new payments.
func TestALeaseThatIsOverIsFenced(t *testing.T) {
	at := database(t)
	a, b := open(t, at), open(t, elsewhere(t, at))
	if ok, err := a.Claim(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	p, err := a.Reserve(t.Context(), terms, one, "req_1", 7, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	a.awaitStart(t)
	a.expireLease(t)
	if ok, err := b.Claim(t.Context()); !ok || err != nil {
		t.Fatalf("the settlements are not taken over: %v, %v", ok, err)
	}
	if left, err := b.Adopt(t.Context(), true, always); len(left) != 1 || err != nil {
		t.Fatalf("the payment is not taken over: %+v, %v", left, err)
	}
	if err := a.MarkServed(t.Context(), p.ID, 10, 10); !errors.Is(err, ErrLost) {
		t.Errorf("served after all: %v", err)
	}
	tx := &pay.Transaction{Hash: pay.Word{1}, Raw: []byte{1}, Fees: pay.Fees{Tip: big.NewInt(1), Cap: big.NewInt(2)}}
	for what, err := range map[string]error{
		"Signed": a.MarkSigned(t.Context(), p.ID, tx), "Ordered": a.MarkOrdered(t.Context(), p.ID), "Found": a.MarkFound(t.Context(), p.ID, tx.Hash), "Confirmed": a.MarkConfirmed(t.Context(), p.ID, tx.Hash, pay.Receipt{}),
		"Unconfirmed": a.MarkUnconfirmed(t.Context(), p.ID), "Finished": a.MarkFinished(t.Context(), p.ID), "Refused": a.MarkRefused(t.Context(), p.ID, "no"),
		"MarkFailed": a.MarkFailed(t.Context(), p.ID, "no"), "MarkLost": a.MarkLost(t.Context(), p.ID),
	} {
		if !errors.Is(err, ErrLost) {
			t.Errorf("%s by one that does not settle any more: %v", what, err)
		}
	}
	if got, err := b.ByID(t.Context(), p.ID); err != nil || got.Service != Serving || got.Settlement != None {
		t.Errorf("%+v, %v", got, err)
	}
	l := a.peers.(*leases) //nolint:forcetypeassert // as silence found
	l.renewed.Store(nil)
	other := *one
	other.Nonce[0]++
	if _, err := a.Reserve(t.Context(), terms, &other, "req_2", 7, Limits{}); err != nil {
		t.Fatal(err)
	}
	if left, err := b.Adopt(t.Context(), true, always); len(left) != 0 || err != nil {
		t.Errorf("a payment of a gateway that is back is taken over: %+v, %v", left, err)
	}
}

// awaitStart waits until the database has been running for longer than a lease: leases could not be renewed before.
func (b *Book) awaitStart(t *testing.T) {
	t.Helper()
	for {
		var young bool
		if err := b.row(t.Context(), `SELECT clock_timestamp() - pg_postmaster_start_time() < ?1 * interval '1 microsecond'`, (leaseTime + time.Second).Microseconds()).Scan(&young); err != nil {
			t.Fatal(err)
		}
		if !young {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the test has ended")
		case <-time.After(200 * time.Millisecond): // the database is another process
		}
	}
}

// TestADatabaseThatEndsIsWaitedFor: operations are completed after its restart, once.
func TestADatabaseThatEndsIsWaitedFor(t *testing.T) {
	s := postgrestest.Start(t)
	b := open(t, Beside(s.Database(t), filepath.Join(t.TempDir(), "ledger"), postgres.Connect))
	p, err := b.Reserve(t.Context(), terms, one, "req_1", 7, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	s.Restart(t)
	if err := b.MarkServed(t.Context(), p.ID, 10, 2000); err != nil {
		t.Fatal(err)
	}
	if err := b.MarkServed(t.Context(), p.ID, 10, 2000); err != nil {
		t.Errorf("the same once more: %v", err)
	}
	if err := b.MarkServed(t.Context(), p.ID, 11, 2000); !errors.Is(err, ErrLost) {
		t.Errorf("another cost: %v", err)
	}
	if got, err := b.ByID(t.Context(), p.ID); err != nil || got.Charge != 10 || got.Captured != 2000 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestADatabaseThatIsSilentIsNotWaitedForLong: it takes connections, and does not answer.
func TestADatabaseThatIsSilentIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	b := open(t, Beside(s.Database(t), filepath.Join(t.TempDir(), "ledger"), postgres.Connect))
	p, err := b.Reserve(t.Context(), terms, one, "req_1", 7, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s.Hang()
	t.Cleanup(s.Resume)
	began := time.Now()
	err = b.MarkServed(t.Context(), p.ID, 10, 10)
	if took := time.Since(began); err == nil || took > 12*time.Second {
		t.Errorf("%v after %s", err, took)
	}
}

func TestAStoreOfANewerVersionIsRefused(t *testing.T) {
	inBoth(t, func(t *testing.T, at Place) {
		t.Helper()
		b := open(t, at)
		change := "UPDATE payment_book SET version = 99"
		if at.File != "" {
			change = "PRAGMA user_version = 99"
		}
		if _, err := b.exec(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), at, time.Now); err == nil {
			t.Error("it was opened")
		}
		if _, ok, err := b.ByRequest(t.Context(), "req_x"); ok || err != nil {
			t.Error("a payment of no request")
		}
	})
	if _, err := Open(t.Context(), InFile(filepath.Join(t.TempDir(), "no", "file")), time.Now); err == nil {
		t.Error("a file in no directory")
	}
	if _, err := Open(t.Context(), Place{URL: "postgres://x"}, time.Now); err == nil {
		t.Error("a database without a client")
	}
}

// TestAStoreIsInspectedWithoutTakingPart: a missing store is not created.
func TestAStoreIsInspectedWithoutTakingPart(t *testing.T) {
	inBoth(t, func(t *testing.T, at Place) {
		t.Helper()
		for range 2 {
			if _, ok, err := Look(t.Context(), at, "req_1"); ok || err != nil {
				t.Fatalf("a payment of no store: %v, %v", ok, err)
			}
		}
		b := open(t, at)
		if _, err := b.Reserve(t.Context(), terms, one, "req_1", 7, Limits{}); err != nil {
			t.Fatal(err)
		}
		if p, ok, err := Look(t.Context(), at, "req_1"); !ok || err != nil || p.Authorization != one.Authorization {
			t.Errorf("%+v, %v, %v", p, ok, err)
		}
	})
}

// TestAFileOfTheFirstVersionIsUpgraded: its payments are of scheme exact, and served ones are moved as a whole.
func TestAFileOfTheFirstVersionIsUpgraded(t *testing.T) {
	at := InFile(filepath.Join(t.TempDir(), "payments.db"))
	b := open(t, at)
	p, err := b.Reserve(t.Context(), terms, one, "req_1", 7, Limits{})
	if err != nil || b.MarkServed(t.Context(), p.ID, 10, 10) != nil {
		t.Fatal(err)
	}
	for _, change := range []string{
		"DROP INDEX payment_open", "DROP INDEX payment_look", "ALTER TABLE payment DROP COLUMN look_at", "ALTER TABLE payment DROP COLUMN debt", "ALTER TABLE payment DROP COLUMN kept", "ALTER TABLE payment DROP COLUMN upto", "ALTER TABLE payment DROP COLUMN facilitator", "ALTER TABLE payment DROP COLUMN captured", "PRAGMA user_version = 1",
	} {
		if _, err := b.db.ExecContext(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	got, err := open(t, at).ByID(t.Context(), p.ID)
	if err != nil || got.UpTo || got.Captured != 5000 || got.Charge != 10 {
		t.Errorf("%+v, %v", got, err)
	}
	var plan string
	if err := b.row(t.Context(), `SELECT group_concat(name) FROM sqlite_master WHERE type = 'index' AND name = 'payment_open'`).Scan(&plan); err != nil || plan == "" {
		t.Errorf("%q, %v", plan, err)
	}
}

// TestPermitsAreStoredWhole, with their facilitator, and count with the moved amount.
func TestPermitsAreStoredWhole(t *testing.T) {
	inBoth(t, func(t *testing.T, at Place) {
		t.Helper()
		b := open(t, at)
		two := *one
		two.UpTo, two.Facilitator = true, pay.Address{9}
		p, err := b.Reserve(t.Context(), terms, &two, "req_1", 7, Limits{Exposure: 5000})
		if err != nil || p.Authorization != two.Authorization {
			t.Fatalf("%+v, %v", p, err)
		}
		if err := b.MarkServed(t.Context(), p.ID, 1000, 2000); err != nil {
			t.Fatal(err)
		}
		if open, err := b.Unsettled(t.Context(), two.From); open != 2000 || err != nil {
			t.Errorf("%s are on their way, %v", open, err)
		}
		if p, err = b.ByID(t.Context(), p.ID); err != nil || p.Transfer().Amount != 2000 || p.Transfer().Value != 5000 {
			t.Errorf("%+v, %v", p, err)
		}
		three := two
		three.Nonce[0]++
		three.Value = 3000
		q, err := b.Reserve(t.Context(), terms, &three, "req_2", 7, Limits{Exposure: 5000})
		if err != nil {
			t.Fatalf("what is not moved does not count: %v", err)
		}
		if err := b.MarkServed(t.Context(), q.ID, 1, 3001); err == nil {
			t.Error("more than was signed is moved")
		}
	})
}

// TestAServedPaymentIsNotReleased by later calls: it would pay for another request.
func TestAServedPaymentIsNotReleased(t *testing.T) {
	inBoth(t, func(t *testing.T, at Place) {
		t.Helper()
		b := open(t, at)
		p, err := b.Reserve(t.Context(), terms, one, "req_1", 7, Limits{})
		if err == nil {
			err = b.MarkServed(t.Context(), p.ID, 1000, 5000)
		}
		if err == nil {
			err = b.Release(t.Context(), p.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Reserve(t.Context(), terms, one, "req_2", 8, Limits{}); !errors.Is(err, ErrSpent) {
			t.Errorf("it pays again: %v", err)
		}
	})
}

// TestADebtIsReservedForOnePayment, until that is released, failed or booked; it does not count either while its transfer cannot be sent.
func TestADebtIsReservedForOnePayment(t *testing.T) {
	inBoth(t, func(t *testing.T, at Place) {
		t.Helper()
		b := open(t, at)
		if ok, err := b.Claim(t.Context()); !ok || err != nil {
			t.Fatal(ok, err)
		}
		reserve := func(nonce byte, owed, want policy.Micro) int64 {
			t.Helper()
			q := *one
			q.Nonce = pay.Word{nonce}
			p, err := b.Reserve(t.Context(), terms, &q, "req_"+string('a'+rune(nonce)), 7, Limits{Owed: owed, Debt: owed})
			if err != nil || p.Debt != want {
				t.Fatalf("payment %d is to pay %s, want %s, %v", nonce, p.Debt, want, err)
			}
			return p.ID
		}
		change := func(what string, want policy.Micro, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(what, err)
			}
			if got, err := b.PendingDebt(t.Context(), one.From); got != want || err != nil {
				t.Errorf("%s: %s are pending, want %s, %v", what, got, want, err)
			}
		}
		first := reserve(1, 700, 700)
		reserve(1, 700, 700) // the connection was lost
		reserve(2, 700, 0)
		third := reserve(3, 900, 200)
		change("both", 900, nil)
		if got, err := b.PendingDebt(t.Context(), pay.Address{9}); got != 0 || err != nil {
			t.Errorf("another payer: %s, %v", got, err)
		}
		change("the first one is released", 200, b.Release(t.Context(), first))
		reserve(1, 800, 600)
		change("it is settled first", 800, b.MarkSettledFirst(t.Context(), first))
		change("it cannot be sent", 200, b.MarkRefused(t.Context(), first, "why"))
		change("it is confirmed", 800, b.MarkConfirmed(t.Context(), first, pay.Word{1}, pay.Receipt{Block: 8}))
		change("it is booked", 200, b.MarkBooked(t.Context(), first))
		change("the third one failed", 0, b.MarkFailed(t.Context(), third, "why"))
	})
}

func always(string) bool { return true }
