package ledger

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

const usd = policy.USD

// gateway opens a store as the gateway does; its blocks are not returned while idle.
func gateway(t testing.TB, path string) *Ledger {
	t.Helper()
	return openWith(t, path, Options{Gateway: true, IdleReturn: time.Hour})
}

// tool opens a store as a command-line tool does.
func tool(t testing.TB, path string) *Ledger {
	t.Helper()
	return openWith(t, path, Options{Poll: 10 * time.Millisecond})
}

// openWith opens a store without a retention, unless o has one: the tests' requests are old, and would be removed when a store is
// opened. ReserveWait is long enough for a busy machine. The files of charge logs are short, so that they are read fast and reused
// often.
func openWith(t testing.TB, path string, o Options) *Ledger {
	t.Helper()
	o.Retention = cmp.Or(o.Retention, -1)
	o.ReserveWait = cmp.Or(o.ReserveWait, polltest.Patience)
	o.charges.Segment = cmp.Or(o.charges.Segment, 64<<10)
	l, err := open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// iterations is the number of iterations of a random test: short, or soak in make soak. In PostgreSQL, which is slower, and with -short, which is used with the
// race detector, short is halved.
func iterations(t testing.TB, short, soak int) int {
	t.Helper()
	switch {
	case os.Getenv("BARDO_SOAK") != "":
		return soak
	case inPostgres(t):
		short /= 2
	}
	if testing.Short() {
		short /= 2
	}
	return max(1, short)
}

// stride is the distance between the tested steps: 1 in make soak, and four times as long in PostgreSQL.
func stride(t testing.TB, short int) int {
	t.Helper()
	switch {
	case os.Getenv("BARDO_SOAK") != "":
		return 1
	case inPostgres(t):
		return 4 * short
	}
	return short
}

func storePath(t testing.TB) string {
	t.Helper()
	if inPostgres(t) {
		return emptyLedgers.URL(t)
	}
	return filepath.Join(t.TempDir(), "bardo.db")
}

// missingStore is the name of a store that does not exist. In PostgreSQL, storePath's has its tables already, which saves time.
func missingStore(t testing.TB) string {
	t.Helper()
	if inPostgres(t) {
		return postgrestest.URL(t)
	}
	return storePath(t)
}

// withKey creates a prepaid key with a balance.
func withKey(t testing.TB, l *Ledger, id policy.Account, opening policy.Micro) {
	t.Helper()
	if err := l.CreateKey(t.Context(), KeyRow{ID: id, Prepaid: true}, opening); err != nil {
		t.Fatal(err)
	}
}

func reserve(t testing.TB, l *Ledger, id policy.Account, request string, amount policy.Micro) *Hold {
	t.Helper()
	h, err := l.Reserve(t.Context(), id, request, amount)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func capture(t testing.TB, l *Ledger, h *Hold, amount policy.Micro) Receipt {
	t.Helper()
	r, err := l.Capture(t.Context(), h, Charge{Amount: amount})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantBalance(t testing.TB, l *Ledger, id policy.Account, want Balance) {
	t.Helper()
	have, err := l.Balance(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if have != want {
		t.Errorf("balance of %s is %+v, want %+v", id, have, want)
	}
}

func wantClean(t testing.TB, l *Ledger) {
	t.Helper()
	r, err := l.Audit(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		if !c.OK {
			t.Errorf("audit: %s: %q", c.Name, c.Offending)
		}
	}
	if !r.OK && !t.Failed() {
		t.Error("audit is not OK, but all its checks are")
	}
}

// eventually waits for a condition that another goroutine or process makes true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	polltest.Until(t, what, ok)
}

func TestAStoreCanBeOpenedAfterAGatewayStopped(t *testing.T) {
	path := storePath(t)
	first := gateway(t, path)
	withKey(t, first, "k", 5*usd)
	reserve(t, first, "k", "left open", usd)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	wantBalance(t, tool(t, path), "k", Balance{Prepaid: true, Amount: 5 * usd, Available: 5 * usd})
	gateway(t, path)
}

func TestAClosedLedgerReturnsErrClosed(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Capture(t.Context(), h, Charge{Amount: 1}); !errors.Is(err, ErrClosed) {
		t.Errorf("capture: %v, want ErrClosed", err)
	}
	if err := l.Record(Charge{RequestID: "m"}); !errors.Is(err, ErrClosed) {
		t.Errorf("record: %v, want ErrClosed", err)
	}
	if _, err := l.Deposit(t.Context(), "k", usd, "d"); !errors.Is(err, ErrClosed) {
		t.Errorf("deposit: %v, want ErrClosed", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

func TestTheStoreIsPrivate(t *testing.T) {
	path := storePath(t)
	withKey(t, gateway(t, path), "k", usd)
	for _, suffix := range []string{"", "-wal", "-shm", ".lock", ".1.lock", ".1.0.log", ".1.1.log", ".queue.lock", ".write.lock"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o, want 600", filepath.Base(path+suffix), mode)
		}
	}
}
