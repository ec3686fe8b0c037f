package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
	"bardo.money/gateway/policy/ledger/store"
)

// onMachine opens a gateway with files of its own, as on another machine.
func onMachine(t testing.TB, url, dir string, o Options) *Ledger {
	t.Helper()
	o.Gateway, o.IdleReturn, o.Dir, o.Connect = true, time.Hour, dir, postgres.Connect
	return openWith(t, url, o)
}

func TestPostgresAGatewayOfAnotherMachineKeepsItsBlocksUntilItsLeaseEnds(t *testing.T) {
	url, machine := postgrestest.URL(t), t.TempDir()
	a := onMachine(t, url, machine, Options{Lease: 3 * time.Second, Flush: time.Hour})
	b := onMachine(t, url, t.TempDir(), Options{Lease: 3 * time.Second, Poll: 2 * time.Millisecond, ReserveWait: time.Millisecond})
	withKey(t, a, "k", 5*usd)
	h := reserve(t, a, "k", "paid", 2*usd)
	reserve(t, a, "k", "open", 2*usd)
	capture(t, a, h, 2*usd) // only in its charge log
	kill(t, a)
	killed := time.Now()
	refused(t, b, 4*usd)
	wantClean(t, b)
	eventually(t, "what it held is returned", func() bool {
		h, err := b.Reserve(t.Context(), "k", "after the lease", 2*usd)
		b.Release(h)
		return err == nil
	})
	if took := time.Since(killed); took < 2*time.Second {
		t.Errorf("returned after %s, in the middle of the lease", took)
	}
	again := onMachine(t, url, machine, Options{Lease: 3 * time.Second}) // its machine is there again, with the log
	wantChargedOnce(t, again, acknowledged{"k", "paid", 2 * usd})
	for _, l := range []*Ledger{again, b} {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cli := tool(t, url)
	wantBalance(t, cli, "k", Balance{Prepaid: true, Amount: 3 * usd, Available: 3 * usd})
	wantClean(t, cli)
}

// TestPostgresAGatewayUsesNoBlocksBeyondItsLease: others may have returned its blocks.
func TestPostgresAGatewayUsesNoBlocksBeyondItsLease(t *testing.T) {
	s := postgrestest.Start(t)
	url := s.Database(t)
	l := onMachine(t, url, t.TempDir(), Options{Lease: 4 * time.Second})
	withKey(t, l, "k", 80*usd)
	l.Release(reserve(t, l, "k", "has a block", usd))
	s.Kill(t)
	h, err := l.Reserve(t.Context(), "k", "of the block", usd)
	if err != nil {
		t.Fatalf("within the lease: %v", err)
	}
	capture(t, l, h, usd)
	if err := l.Record(Charge{RequestID: "metered", Account: "m", Amount: usd}); err != nil {
		t.Error(err)
	}
	eventually(t, "the block may be another's", func() bool {
		h, err := l.Reserve(t.Context(), "k", "later", usd)
		l.Release(h)
		return commit.IsUnwritable(err)
	})
	if _, ok := l.ReserveNow("k", "later", usd); ok || l.Immediate("k") {
		t.Error("the block is given out")
	}
	if _, _, err := l.Key(t.Context(), "k"); !commit.IsUnwritable(err) {
		t.Errorf("a key is read: %v", err)
	}
	s.Restart(t)
	wantWritten(t, l)
	wantChargedOnce(t, l, acknowledged{"k", "paid", 0}.of("of the block", usd))
	wantBlockMatchesMemory(t, l, "k")
	l.Release(reserve(t, l, "k", "served again", usd))
	wantClean(t, l)
}

// TestPostgresAGatewayStartsBesideOneThatWasCutOff, during a transaction, which the database ends after a while.
func TestPostgresAGatewayStartsBesideOneThatWasCutOff(t *testing.T) {
	url := postgrestest.URL(t)
	a := onMachine(t, url, t.TempDir(), Options{})
	withKey(t, a, "k", 5*usd)
	db, err := postgres.Connect(t.Context(), url, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `UPDATE ledger SET changes = changes + 1`); err != nil {
		t.Fatal(err)
	}
	b := onMachine(t, url, t.TempDir(), Options{})
	b.Release(reserve(t, b, "k", "served", usd))
	wantClean(t, b)
}

// TestPostgresThatTakesConnectionsAndNeverAnswers: callers wait some seconds at most, and blocks are not used beyond the lease, also while the
// janitor waits for the answer.
func TestPostgresThatTakesConnectionsAndNeverAnswers(t *testing.T) {
	s := postgrestest.Start(t)
	l := onMachine(t, s.Database(t), t.TempDir(), Options{Lease: 4 * time.Second})
	withKey(t, l, "k", 80*usd)
	withKey(t, l, "other", 80*usd)
	l.Release(reserve(t, l, "k", "has a block", usd))
	s.Hang()
	t.Cleanup(s.Resume)
	var all sync.WaitGroup
	for what, read := range map[string]func() error{
		"balance":  func() error { _, err := l.Balance(t.Context(), "k"); return err },
		"solvent":  func() error { return l.Solvent(t.Context(), "other") },
		"kept":     func() error { _, _, err := l.StoredResource(t.Context(), "file-1"); return err },
		"several":  func() error { _, err := l.StoredResources(t.Context(), []string{"file-1"}); return err },
		"request":  func() error { _, err := l.AnyRequest(t.Context(), "r"); return err },
		"instance": func() error { _, err := l.otherInstances(); return err },
	} {
		all.Go(func() {
			began := time.Now()
			err := read()
			if took := time.Since(began); err == nil || took > 4*readTimeout {
				t.Errorf("%s: %v after %s", what, err, took)
			}
			if f := fault.From(err); what != "instance" && (f.Kind != fault.Unavailable || f.RetryAfter == 0) {
				t.Errorf("%s: clients get %v", what, f)
			}
		})
	}
	eventually(t, "the lease may have ended", l.lease.IsExpiring)
	if _, ok := l.ReserveNow("k", "beyond the lease", usd); ok {
		t.Error("the block is given out beyond the lease")
	}
	all.Wait()
	s.Resume()
	l.Release(reserve(t, l, "k", "served again", usd))
	wantClean(t, l)
}

func (a acknowledged) of(request string, charged policy.Micro) acknowledged {
	a.request, a.charged = request, charged
	return a
}

// TestPostgresAGatewayConsideredDeadRejoins, for instance after an outage of its network that was longer than its lease.
func TestPostgresAGatewayConsideredDeadRejoins(t *testing.T) {
	url := postgrestest.URL(t)
	a, b := onMachine(t, url, t.TempDir(), Options{}), onMachine(t, url, t.TempDir(), Options{})
	withKey(t, a, "k", 5*usd)
	open := reserve(t, a, "k", "open", 2*usd)
	old := a.instance.Load()
	err := b.write(func(b *book) error { return b.removeDead([]int64{old}) })
	if err != nil {
		t.Fatal(err)
	}
	a.lease.Renew(time.Now().Add(-time.Hour)) // it is due
	taken := reserve(t, b, "k", "of the other one", 3*usd)
	if r := capture(t, a, open, 2*usd); r.Charged != 2*usd {
		t.Errorf("%+v", r)
	}
	eventually(t, "it has another number", func() bool { return a.instance.Load() != old })
	wantWritten(t, a)
	capture(t, b, taken, 3*usd)
	flush(t, b)
	wantBlockMatchesMemory(t, a, "k")
	wantBalance(t, tool(t, url), "k", Balance{Prepaid: true})
	wantClean(t, a)
}

// cutConnection is a connection that is cut once, before or after a commit.
type cutConnection struct {
	cut   atomic.Bool
	after bool
}

// TestPostgresAnInDoubtCommitIsResolved: the change is made once, and its sender gets its result.
func TestPostgresAnInDoubtCommitIsResolved(t *testing.T) {
	for name, after := range map[string]bool{"before it is committed": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			l := onMachine(t, postgrestest.URL(t), t.TempDir(), Options{})
			withKey(t, l, "k", 5*usd)
			cut := cutConnection{after: after}
			d := *l.book.Dialect
			commitBook := d.Commit
			d.Commit = func(b *store.Book) error {
				if !cut.cut.CompareAndSwap(false, true) {
					return commitBook(b)
				}
				pid := cutBackend(t, b, cut.after)
				t.Logf("cut %d", pid)
				return commitBook(b)
			}
			if err := l.between(func(b *book) error { b.Dialect = &d; return nil }); err != nil {
				t.Fatal(err)
			}
			_, err := l.Deposit(t.Context(), "k", usd, "d")
			want := 5 * usd
			if after {
				want += usd
			}
			if (err == nil) != after {
				t.Errorf("deposit: %v", err)
			}
			wantWritten(t, l)
			wantBalance(t, l, "k", Balance{Prepaid: true, Amount: want, Available: want})
			wantClean(t, l)
		})
	}
}

// cutBackend ends the session of a book, before the commit of its transaction or after it.
func cutBackend(t *testing.T, b *store.Book, after bool) (pid int) {
	t.Helper()
	if err := b.Row(`SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Error(err)
	}
	if after {
		if err := b.Do("COMMIT"); err != nil {
			t.Error(err)
		}
	}
	db, err := b.OpenReads(context.Background())
	if err != nil {
		t.Error(err)
		return pid
	}
	_, err = db.ExecContext(t.Context(), `SELECT pg_terminate_backend($1, 5000)`, pid)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Error(err)
	}
	return pid
}

// TestPostgresACommitWithALostAnswerLeavesNothingHeld: if the database cannot be queried either, the sender gets an error, and the money that the commit moved
// into the block is returned.
func TestPostgresACommitWithALostAnswerLeavesNothingHeld(t *testing.T) {
	s := postgrestest.Start(t)
	l := onMachine(t, s.Database(t), t.TempDir(), Options{})
	withKey(t, l, "k", 5*usd)
	var once sync.Once
	d := *l.book.Dialect
	commitBook := d.Commit
	d.Commit = func(b *store.Book) error {
		once.Do(func() {
			if err := b.Do("COMMIT"); err != nil {
				t.Error(err)
			}
			s.Kill(t)
		})
		return commitBook(b)
	}
	if err := l.between(func(b *book) error { b.Dialect = &d; return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Reserve(t.Context(), "k", "r", usd); !commit.IsUnwritable(err) {
		t.Errorf("reserve: %v", err)
	}
	s.Restart(t)
	wantWritten(t, l)
	wantBlockMatchesMemory(t, l, "k")
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 5 * usd, Available: 5 * usd})
	l.Release(reserve(t, l, "k", "r2", usd))
	wantClean(t, l)
}

// TestPostgresKilledUnderLoadLosesNothing kills the database repeatedly while two gateways serve: every acknowledged charge is stored once.
func TestPostgresKilledUnderLoadLosesNothing(t *testing.T) {
	s := postgrestest.Start(t)
	url := s.Database(t)
	var gateways []*Ledger
	for range 2 {
		gateways = append(gateways, onMachine(t, url, t.TempDir(), Options{Flush: 10 * time.Millisecond, charges: chargelog.Options{Segment: 64 << 10}}))
	}
	for id, balance := range crashKeys {
		withKey(t, gateways[0], id, balance)
	}
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	var acks []acknowledged
	var failed atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			pace := time.NewTicker(2 * time.Millisecond) // a block has some seconds' charges
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				<-pace.C
				a, ok := chargeOne(t, gateways[i%2], fmt.Sprintf("%d-%d", i, n))
				if !ok {
					failed.Add(1)
					continue
				}
				mu.Lock()
				acks = append(acks, a)
				mu.Unlock()
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acks)
	}
	for range iterations(t, 3, 30) {
		n := count()
		eventually(t, "charges are acknowledged", func() bool { return count() > n+200 })
		n = count()
		s.Kill(t)
		eventually(t, "charges are acknowledged without the database", func() bool { return count() > n+20 })
		s.Restart(t)
		for _, l := range gateways {
			eventually(t, "it is written again", func() bool { return l.Writable() == nil && l.StoreFailure() == nil })
		}
	}
	stop()
	all.Wait()
	for _, l := range gateways {
		wantWritten(t, l)
		for id := range crashKeys {
			wantBlockMatchesMemory(t, l, id)
		}
	}
	wantClean(t, gateways[0])
	wantAllChargedOnce(t, gateways[0], acks)
	t.Logf("%d captures were acknowledged, %d requests refused", len(acks), failed.Load())
}

// chargeOne reserves and captures; ok is false if it was refused.
func chargeOne(t *testing.T, l *Ledger, request string) (a acknowledged, ok bool) {
	t.Helper()
	h, err := l.Reserve(context.Background(), "rich", request, 2000)
	if commit.IsUnwritable(err) {
		return a, false
	}
	if err != nil {
		t.Errorf("reserve: %v", err)
		return a, false
	}
	r, err := l.Capture(context.Background(), h, Charge{Amount: 1500})
	if err != nil {
		t.Errorf("capture: %v", err)
	}
	return acknowledged{"rich", request, r.Charged}, err == nil
}

// TestPostgresTakesAnyText: callers may send NUL characters and invalid UTF-8, which PostgreSQL refuses.
func TestPostgresTakesAnyText(t *testing.T) {
	l := gateway(t, postgrestest.URL(t))
	withKey(t, l, "k", 5*usd)
	const odd = "a\x00b\xffc"
	h := reserve(t, l, "k", odd, usd)
	if _, err := l.Capture(t.Context(), h, Charge{Amount: usd, Model: odd, Agent: odd, Part: odd, Subsystem: odd, Record: []byte(`{"requested_model":"a\u0000b"}`)}); err != nil {
		t.Fatal(err)
	}
	if rows, err := l.Requests(t.Context(), RequestFilter{Model: "a\uFFFDb"}); err != nil || len(rows) != 1 || rows[0].Charged != usd {
		t.Errorf("before it is applied: %+v, %v", rows, err)
	}
	flush(t, l)
	if r, err := l.Request(t.Context(), "k", odd); err != nil || r.Charged != usd || r.Model != "a\uFFFDb\uFFFDc" {
		t.Errorf("%+v, %v", r, err)
	}
	if rows, err := l.Requests(t.Context(), RequestFilter{Model: "a\uFFFDb"}); err != nil || len(rows) != 1 {
		t.Errorf("%+v, %v", rows, err)
	}
	if capture(t, l, reserve(t, l, "k", odd, usd), usd); l.StoreFailure() != nil {
		t.Error("a charge is refused")
	}
	flush(t, l)
	wantClean(t, l)
}

func TestPostgresAPasswordIsInNoError(t *testing.T) {
	for _, url := range []string{"postgres://bardo:hunter2@127.0.0.1:1/bardo", "postgres://bardo:hunter2@127.0.0.1:1/bardo?sslmode=often", "postgres://bardo:hunter2@[::1/bardo"} {
		_, err := Open(t.Context(), url, Options{Dir: t.TempDir(), Connect: postgres.Connect})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := Open(t.Context(), "postgres://h/d", Options{}); !errors.Is(err, store.ErrNoPostgres) {
		t.Errorf("without a client: %v", err)
	}
	_, err := Open(t.Context(), "postgres://bardo:hunter2@127.0.0.1:1/bardo", Options{Dir: t.TempDir(), Connect: postgres.Connect})
	if !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("without a listener: %v", err)
	}
}

// TestPostgresALedgerThatCouldLoseChargesIsRefused: settings that make commits less durable are refused.
func TestPostgresALedgerThatCouldLoseChargesIsRefused(t *testing.T) {
	url := postgrestest.URL(t)
	_, err := open(t.Context(), url+"&synchronous_commit=off", Options{Gateway: true})
	if err == nil || !strings.Contains(err.Error(), "synchronous_commit is off") {
		t.Errorf("%v", err)
	}
	gateway(t, url)
}

// TestPostgresABackupThatIsRestoredIsNoticed: the store is an earlier state of itself, and its blocks are not those of this gateway.
func TestPostgresABackupThatIsRestoredIsNoticed(t *testing.T) {
	url := postgrestest.URL(t)
	l := onMachine(t, url, t.TempDir(), Options{})
	withKey(t, l, "k", 5*usd)
	l.Release(reserve(t, l, "k", "has a block", usd))
	old := l.instance.Load()
	db := raw(t, url)
	for _, s := range []string{`SET search_path TO bardo`, `UPDATE ledger SET changes = 1`, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`} {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	_ = db.Close()
	eventually(t, "it has another number", func() bool { return l.instance.Load() != old })
	wantWritten(t, l)
	l.Release(reserve(t, l, "k", "again", usd))
	wantBlockMatchesMemory(t, l, "k")
	eventually(t, "the earlier block is returned", func() bool {
		b, err := tool(t, url).Balance(t.Context(), "k")
		return err == nil && b.Held <= usd+usd/4
	})
	wantClean(t, l)
}

// TestPostgresAFailedStatementIsNoCommit: PostgreSQL would roll such a transaction back and report no error.
func TestPostgresAFailedStatementIsNoCommit(t *testing.T) {
	l := gateway(t, postgrestest.URL(t))
	withKey(t, l, "k", 5*usd)
	err := l.write(func(b *book) error {
		_, _ = b.Exec(`INSERT INTO account (id, name) VALUES (1, 'taken')`)
		return nil
	})
	if err == nil {
		t.Error("it was reported as committed")
	}
	wantWritten(t, l)
	reserve(t, l, "k", "r", usd)
	wantClean(t, l)
}
