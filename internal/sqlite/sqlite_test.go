package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileIsCreatedForItsUserAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a file.db")
	db, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	one, two := Script("CREATE TABLE t (a INTEGER) STRICT"), Script("ALTER TABLE t ADD COLUMN b INTEGER")
	if err := Prepare(t.Context(), db, one); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(t.Context(), db, one, two); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(t.Context(), db, one, two); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO t (a, b) VALUES (1, 2)"); err != nil {
		t.Error(err)
	}
	if err := Prepare(t.Context(), db, one); err == nil || !strings.Contains(err.Error(), "newer version of this program (2)") {
		t.Errorf("of a newer version: %v", err)
	}
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestAStepThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	db, err := Open(filepath.Join(t.TempDir(), "a.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	no := errors.New("no")
	if err := Prepare(t.Context(), db, Script("CREATE TABLE t (a INTEGER)"), func(context.Context, *sql.Tx) error { return no }); !errors.Is(err, no) {
		t.Fatal(err)
	}
	var version, tables int
	if err := db.QueryRowContext(t.Context(), "SELECT * FROM pragma_user_version, (SELECT count(*) FROM sqlite_master)").Scan(&version, &tables); err != nil || version != 0 || tables != 0 {
		t.Errorf("version %d, %d tables, %v", version, tables, err)
	}
}

func TestAFileOfLaterIsNotCreatedByItsUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := OpenLater(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := Prepare(t.Context(), db); err == nil {
		t.Error("a file that does not exist can be used")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("it was created")
	}
	if err := Touch(path); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(t.Context(), db, Script("CREATE TABLE t (a INTEGER)")); err != nil {
		t.Error(err)
	}
}
