package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"bardo.money/gateway/policy/ledger/lock"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

// firstVersion creates a store with the first version of the schema, and the row of a gateway that was killed.
func firstVersion(t *testing.T) (path string) {
	t.Helper()
	path = storePath(t)
	step, err := os.ReadFile("store/schema/1.sql")
	if err != nil {
		t.Fatal(err)
	}
	change(t, path, `PRAGMA journal_mode = WAL`, string(step), `PRAGMA user_version = 1`,
		`INSERT INTO account (id, name) VALUES (4, 'k'), (5, 'broken'), (6, 'metered')`,
		`INSERT INTO "key" SELECT name, name, 'pro', 'hash', 1, name <> 'metered', 0, 0, 0, 0, '', 0, NULL FROM account WHERE id > 3`,
		`INSERT INTO journal VALUES (1, 'deposit:k:opening', 'deposit', 0, 'opening'), (2, 'request:r', 'charge', 0, 'r')`,
		`INSERT INTO entry VALUES (1, 4, 5000000), (1, 1, -5000000), (2, 4, -1000000), (2, 2, 1000000)`,
		`INSERT INTO balance VALUES (4, 4000000, 250000, 0, 0), (5, 0, 7, 100, 0)`,
		`INSERT INTO block VALUES (4, 250000, 0), (5, 3, 0)`,
		fmt.Sprintf(`INSERT INTO request VALUES ('r', 'k', 2, %d, 'p', 'm', '', 'ok', 1, 0, 0, 1, 0, 1000000, 1000000, 5, NULL)`, time.Now().UnixMicro()),
		`INSERT INTO usage VALUES ('k', 0, 'm', 'p', '', 1, 1, 0, 0, 1, 0, 1000000, 5)`,
		fmt.Sprintf(`INSERT INTO usage VALUES ('k', %d, 'm', 'p', '', 1, 1, 0, 0, 1, 0, 1000000, 5)`, usage.DayOf(time.Now())))
	return path
}

func TestAStoreOfTheFirstVersionIsMigrated(t *testing.T) {
	l := gateway(t, firstVersion(t))
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 4 * usd, Available: 4 * usd})
	wantBalance(t, l, "metered", Balance{})
	if r, err := l.Request(t.Context(), "k", "r"); err != nil || r.Charged != usd {
		t.Errorf("%+v, %v", r, err)
	}
	if r := capture(t, l, reserve(t, l, "k", "r2", 4*usd), 4*usd); r != (Receipt{Charged: 4 * usd}) {
		t.Errorf("%+v", r)
	}
	if rows, err := l.Usage(t.Context(), Filter{Account: "k", Until: time.Unix(0, 0)}, ByModel); err != nil || len(rows) != 1 || rows[0].Saved != 0 || rows[0].Cost != usd {
		t.Errorf("usage of before: %+v, %v", rows, err)
	}
	r, err := l.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		broken := c.Name == "what is held lies in open blocks"
		if c.OK == broken {
			t.Errorf("%s: %v %q: what was wrong before stays visible, and nothing else is", c.Name, c.OK, c.Offending)
		}
	}
}

func TestAStoreIsNotMigratedUnderARunningGateway(t *testing.T) {
	path := firstVersion(t)
	old := lock.File{Path: path + ".lock"} // the lock of a running gateway of the first version
	if ok, err := old.Try(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, o := range []Options{{}, {Gateway: true}} {
		err := context.DeadlineExceeded
		for wait := 50 * time.Millisecond; errors.Is(err, context.DeadlineExceeded); wait *= 2 { // until it gets as far as the lock
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			_, err = open(ctx, path, o)
			cancel()
		}
		if !errors.Is(err, ErrInUse) {
			t.Errorf("%+v: %v, want ErrInUse", o, err)
		}
	}
	if v := userVersion(t, path); v != 1 {
		t.Errorf("the store is of version %d now", v)
	}
	if err := old.Release(); err != nil {
		t.Fatal(err)
	}
	gateway(t, path)
	if v := userVersion(t, path); v != store.SchemaVersion {
		t.Errorf("the store is of version %d", v)
	}
}

func userVersion(t *testing.T, path string) (v int) {
	t.Helper()
	db, err := sql.Open("sqlite3", fileURL(path, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(t.Context(), `PRAGMA user_version`).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
