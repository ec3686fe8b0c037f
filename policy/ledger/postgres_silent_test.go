package ledger

import (
	"context"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
	"bardo.money/gateway/policy/ledger/store"
)

// relay passes bytes between clients and a PostgreSQL server, until it is told to keep those of a direction.
type relay struct {
	server string // path of its socket
	all    sync.WaitGroup

	mu     sync.Mutex
	freed  sync.Cond
	keeps  [2]bool // to the server, and to the client
	begun  int     // number of connections so far
	hung   int     // of the first ones, which the relay passes nothing on
	strand bool    // the next bytes to the server end the client's connection, and are kept
	ended  bool
}

// throughRelay starts a relay, and returns the URL of a database behind it.
func throughRelay(t *testing.T, database string) (*relay, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	const socket = ".s.PGSQL.5432"
	q := u.Query()
	r := &relay{server: filepath.Join(q.Get("host"), socket)}
	r.freed.L = &r.mu
	dir := t.TempDir()
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	r.all.Go(func() { r.accept(l) })
	t.Cleanup(func() {
		r.mu.Lock()
		r.ended = true
		r.mu.Unlock()
		r.keep(false, false)
		_ = l.Close()
		r.all.Wait()
	})
	return r, u.String()
}

// hang has the connections so far pass nothing until keep is called. Others work.
func (r *relay) hang() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hung = r.begun
}

// keep sets whether bytes to the server and to the client are kept. Kept bytes are passed on later, also those of connections that were closed meanwhile.
func (r *relay) keep(toServer, toClient bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keeps, r.hung = [2]bool{toServer, toClient}, 0
	r.freed.Broadcast()
}

func (r *relay) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "unix", r.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.begun++
		number := r.begun
		r.mu.Unlock()
		r.all.Go(func() { r.pass(server, client, 0, number) })
		r.all.Go(func() { r.pass(client, server, 1, number) })
	}
}

// pass copies bytes, and the end.
func (r *relay) pass(to, from net.Conn, direction, number int) {
	defer func() { _ = to.Close() }()
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		stranded := direction == 0 && r.strand
		if stranded {
			_ = from.Close()
			r.strand = false
		}
		for r.keeps[direction] || number <= r.hung || stranded && !r.ended {
			r.freed.Wait()
			stranded = false
		}
		ended := r.ended
		r.mu.Unlock()
		if _, e := to.Write(b[:n]); errors.Join(err, e) != nil || ended {
			return
		}
	}
}

// strandNext ends the client's connection that sends next. What it sends reaches the server after the next call of keep.
func (r *relay) strandNext() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strand = true
}

// wantRefused checks that an operation fails with 503. Package postgres tests after how many seconds.
func wantRefused(t *testing.T, what string, do func() error) {
	t.Helper()
	err := do()
	if !commit.IsUnwritable(err) {
		t.Errorf("%s: %v", what, err)
	}
	if f := fault.From(err); f.Kind != fault.Unavailable || f.RetryAfter == 0 {
		t.Errorf("%s: clients get %v", what, f)
	}
}

// TestPostgresADatabaseThatIsSilentIsNotWaitedForLong: deposits, and requests that need a new block, are refused after some seconds, and made once if they are
// repeated.
func TestPostgresADatabaseThatIsSilentIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	r, url := throughRelay(t, postgrestest.URL(t))
	l := onMachine(t, url, t.TempDir(), Options{})
	withKey(t, l, "k", 80*usd)
	deposit := func() error { _, err := l.Deposit(t.Context(), "k", usd, "d"); return err }
	r.keep(true, true)
	var all sync.WaitGroup
	all.Go(func() { wantRefused(t, "deposit", deposit) })
	all.Go(func() {
		wantRefused(t, "block", func() error { _, err := l.Reserve(t.Context(), "k", "r", usd); return err })
	})
	all.Wait()
	r.keep(false, false)
	wantWritten(t, l)
	for range 2 {
		if err := deposit(); err != nil {
			t.Error(err)
		}
	}
	l.Release(reserve(t, l, "k", "r", usd))
	wantBlockMatchesMemory(t, l, "k")
	if b, err := l.Balance(t.Context(), "k"); err != nil || b.Amount != 81*usd {
		t.Errorf("%+v, %v", b, err)
	}
	wantClean(t, l)
}

// TestPostgresAConnectionThatHangsIsReplaced: as soon as the database has nothing to do on it, whether the statement or its answer is lost. A deposit is made
// once if it is repeated.
func TestPostgresAConnectionThatHangsIsReplaced(t *testing.T) {
	t.Parallel()
	for name, hang := range map[string]func(t *testing.T, l *Ledger, r *relay){
		"before a transaction": func(_ *testing.T, _ *Ledger, r *relay) { r.hang() },
		"before the commit":    func(t *testing.T, l *Ledger, r *relay) { t.Helper(); beforeCommit(t, l, r.hang).Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, url := throughRelay(t, postgrestest.URL(t))
			l := onMachine(t, url, t.TempDir(), Options{Poll: time.Hour})
			withKey(t, l, "k", 5*usd)
			hang(t, l, r)
			wantRefused(t, "deposit", func() error {
				_, err := l.Deposit(t.Context(), "k", usd, "d")
				if !errors.Is(err, postgres.ErrNotBusy) {
					t.Errorf("%v", err)
				}
				return err
			})
			wantWritten(t, l)
			r.keep(false, false) // for reads
			for range 2 {
				if _, err := l.Deposit(t.Context(), "k", usd, "d"); err != nil {
					t.Error(err)
				}
			}
			wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 6 * usd, Available: 6 * usd})
			wantClean(t, l)
		})
	}
}

// TestPostgresACommitThatIsAbandonedHappensOnce: the database commits a deposit, or a block, whose sender got an error, since the answer is lost, or the commit
// itself arrives late.
func TestPostgresACommitThatIsAbandonedHappensOnce(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"its answer is lost": false, "it arrives late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, url := throughRelay(t, postgrestest.URL(t))
			l := onMachine(t, url, t.TempDir(), Options{})
			withKey(t, l, "k", 5*usd)
			silent := beforeCommit(t, l, func() { r.keep(late, true) })
			silent.Store(true)
			wantRefused(t, "deposit", func() error { _, err := l.Deposit(t.Context(), "k", usd, "d"); return err })
			r.keep(false, false)
			wantWritten(t, l)
			for range 2 {
				if _, err := l.Deposit(t.Context(), "k", usd, "d"); err != nil {
					t.Error(err)
				}
			}
			silent.Store(true)
			wantRefused(t, "block", func() error { _, err := l.Reserve(t.Context(), "k", "r", usd); return err })
			r.keep(false, false)
			wantWritten(t, l)
			wantBlockMatchesMemory(t, l, "k")
			wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 6 * usd, Available: 6 * usd})
			if r := capture(t, l, reserve(t, l, "k", "r", 6*usd), 6*usd); r.Charged != 6*usd {
				t.Errorf("%+v", r)
			}
			flush(t, l)
			wantClean(t, l)
		})
	}
}

// beforeCommit calls a function before the next commit after next is set.
func beforeCommit(t *testing.T, l *Ledger, do func()) (next *atomic.Bool) {
	t.Helper()
	next = &atomic.Bool{}
	d := *l.book.Dialect
	commitBook := d.Commit
	d.Commit = func(b *store.Book) error {
		if next.Swap(false) {
			do()
		}
		return commitBook(b)
	}
	if err := l.between(func(b *book) error { b.Dialect = &d; return nil }); err != nil {
		t.Fatal(err)
	}
	return next
}

// TestPostgresACommitInProgressIsWaitedFor: the connection is lost, and the commit reaches the database after the gateway has connected again.
func TestPostgresACommitInProgressIsWaitedFor(t *testing.T) {
	t.Parallel()
	r, url := throughRelay(t, postgrestest.URL(t))
	l := onMachine(t, url, t.TempDir(), Options{})
	withKey(t, l, "k", 5*usd)
	beforeCommit(t, l, r.strandNext).Store(true)
	wantRefused(t, "block", func() error { _, err := l.Reserve(t.Context(), "k", "r", usd); return err })
	if b, err := tool(t, url).Balance(t.Context(), "k"); err != nil || b.Held != 0 {
		t.Errorf("before the commit: %+v, %v", b, err)
	}
	r.keep(false, false)
	wantWritten(t, l)
	wantBlockMatchesMemory(t, l, "k")
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 5 * usd, Available: 5 * usd})
	wantClean(t, l)
}
