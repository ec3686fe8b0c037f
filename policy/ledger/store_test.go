package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/ledger/store"
)

func TestANewerStoreIsRefused(t *testing.T) {
	path := storePath(t)
	if err := gateway(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	setVersion(t, path, 99)
	for _, gateway := range []bool{false, true} {
		_, err := open(t.Context(), path, Options{Gateway: gateway})
		if !errors.Is(err, ErrNewerStore) || !strings.Contains(err.Error(), "version 99") {
			t.Errorf("gateway=%v: %v, want ErrNewerStore with its version", gateway, err)
		}
	}
	setVersion(t, path, store.SchemaVersion)
	gateway(t, path)
}

// setVersion sets a store's schema version.
func setVersion(t testing.TB, path string, version int) {
	t.Helper()
	statement := `PRAGMA user_version = `
	if store.IsPostgres(path) {
		statement = `UPDATE ledger SET version = `
	}
	change(t, path, fmt.Sprint(statement, version))
}

func TestAPathMayHaveAnyCharacters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c=d%20#é.db")
	l := gateway(t, path)
	withKey(t, l, "k", usd)
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Error(err)
	}
}

func TestAFileThatIsNoStoreIsRefused(t *testing.T) {
	path := storePath(t)
	if err := os.WriteFile(path, []byte(strings.Repeat("this is not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context(), path, Options{Gateway: true}); err == nil {
		t.Fatal("opened")
	}
	if _, err := open(t.Context(), filepath.Join(t.TempDir(), "no", "such", "folder"), Options{}); err == nil {
		t.Fatal("opened a store in a folder that is not there")
	}
}

func TestAFailedOpenLeavesNoLock(t *testing.T) {
	path := storePath(t)
	change(t, path, `PRAGMA user_version = 99`)
	if _, err := open(t.Context(), path, Options{Gateway: true}); err == nil {
		t.Fatal("opened")
	}
	change(t, path, `PRAGMA user_version = 0`)
	gateway(t, path)
}

// fileURL is the name of a file for SQLite.
func fileURL(path string, params url.Values) string {
	return (&url.URL{Scheme: "file", Path: path, RawQuery: params.Encode()}).String()
}

// raw opens a store as another program would.
func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	var db *sql.DB
	var err error
	if store.IsPostgres(path) {
		db, err = postgres.Connect(t.Context(), path, false)
	} else {
		db, err = sql.Open("sqlite3", fileURL(path, url.Values{"_foreign_keys": {"off"}, "_ignore_check_constraints": {"on"}, "_busy_timeout": {strconv.FormatInt(polltest.Patience.Milliseconds(), 10)}}))
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// dropConstraints makes PostgreSQL accept rows that violate constraints.
const dropConstraints = `DO $$ DECLARE c record; BEGIN
	FOR c IN SELECT conrelid::regclass AS of, conname FROM pg_constraint WHERE contype IN ('c', 'f') AND connamespace = current_schema()::regnamespace LOOP
		EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.of, c.conname);
	END LOOP; END $$`

// change runs statements on a store, without the ledger's checks.
func change(t testing.TB, path string, statements ...string) {
	t.Helper()
	db := raw(t, path)
	if store.IsPostgres(path) {
		statements = append([]string{dropConstraints}, statements...)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
