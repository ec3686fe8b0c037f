package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	_ "github.com/mattn/go-sqlite3" // the "sqlite3" driver
)

// recordText is a request's record as a string, for SQLite's JSON functions.
const recordText = `CAST(coalesce(record, '{}') AS TEXT)`

// sqliteDialect is the dialect of a file on this machine.
var sqliteDialect = &Dialect{
	prepare: func(ctx context.Context, b *Book) error {
		if err := b.checkPragmas(); err != nil {
			return err
		}
		return b.migrateFile(ctx)
	},
	begin:  func(b *Book) error { return b.Do("BEGIN IMMEDIATE") },
	Commit: func(b *Book) error { return b.Do("COMMIT") },
	changeNumber: func(b *Book) (v int64, err error) {
		err = b.Row("PRAGMA data_version").Scan(&v)
		return v, err
	},
	InList:     `IN (SELECT value FROM json_each(?))`,
	StringList: func(list []string) any { return asJSON(list) },
	IntList:    func(list []int64) any { return asJSON(list) },

	add: func(b *Book, at time.Time) (id int64, err error) {
		err = b.Row(`INSERT INTO instance (at) VALUES (?) RETURNING id`, at.UnixMicro()).Scan(&id)
		return id, err
	},
	renew: func(b *Book, at time.Time) (bool, error) {
		n, err := b.Exec(`UPDATE instance SET at = ? WHERE id = ?`, at.UnixMicro(), b.Instance)
		return n == 1, err
	},
	Idle: `1 << 62`, // the lock on a gateway's file is enough

	Day: `date(day * 86400, 'unixepoch')`,
	RequestMatches: `
	AND (?2 = '' OR model = ?2 OR json_extract(` + recordText + `, '$.requested_model') = ?2)
	AND (?3 = '' OR provider = ?3 OR EXISTS (SELECT 1 FROM json_each(` + recordText + `, '$.attempt_log') AS a WHERE json_extract(a.value, '$.provider') = ?3))
	AND (?4 = '' OR status = ?4 OR json_extract(` + recordText + `, '$.error') = ?4 OR json_extract(` + recordText + `, '$.http_status') BETWEEN ?5 AND ?6)`,
	WithPending: `(SELECT rowid, ` + RequestColumns + ` FROM request UNION ALL
	SELECT (1 << 61) + key, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
	value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14, value ->> 15, value ->> 16, value ->> 17 FROM json_each(?10))`,
	Audits: []Invariant{
		{"every row refers to a row", `
SELECT printf('%s %d refers to a missing %s', "table", rowid, parent) FROM pragma_foreign_key_check LIMIT 100`},
		{"the file is intact", `
SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok' LIMIT 100`},
	},
}

// asJSON is a list of strings or numbers in JSON.
func asJSON(list any) string {
	text, _ := json.Marshal(list) // cannot fail
	return string(text)
}

// SQLite is a store in a file, which is created if it is missing, with mode 0600; the files beside it inherit the mode.
func SQLite(name string) (*Database, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	path, err := filepath.EvalSymlinks(name) // all processes must use the same lock files
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	return &Database{Dialect: sqliteDialect, Path: path, isFile: true, open: func(_ context.Context, writes bool) (*sql.DB, error) {
		if writes {
			return sql.Open("sqlite3", writeDSN(path))
		}
		return sql.Open("sqlite3", dsn(path, url.Values{"_query_only": {"on"}, "_busy_timeout": {"5000"}}))
	}}, nil
}

// writeDSN is the data source name of the write connection. It does not create a file, so that a removed one is detected. The driver and SQLite
// ignore unknown parameters, so checkPragmas reads the settings back.
func writeDSN(path string) string {
	return dsn(path, url.Values{
		"_journal_mode": {"WAL"}, "_synchronous": {"FULL"}, "_busy_timeout": {"5000"}, "_foreign_keys": {"on"}, "_txlock": {"immediate"}, "mode": {"rw"},
	})
}

func dsn(path string, params url.Values) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: params.Encode()}).String()
}

// checkPragmas checks the settings that durable commits depend on.
func (b *Book) checkPragmas() error {
	for _, p := range []struct{ query, want string }{
		{"PRAGMA journal_mode", "wal"},
		{"PRAGMA synchronous", "2"}, // FULL: a commit survives a loss of power
		{"PRAGMA foreign_keys", "1"},
		{"PRAGMA busy_timeout", "5000"},
	} {
		var have string
		if err := b.Row(p.query).Scan(&have); err != nil {
			return fmt.Errorf("%s: %w", p.query, err)
		}
		if have != p.want {
			return fmt.Errorf("%s is %s, expected %s", p.query, have, p.want)
		}
	}
	return nil
}

// migrateFile runs the missing migrations in one transaction.
func (b *Book) migrateFile(ctx context.Context) error {
	var version int
	if err := b.Row("PRAGMA user_version").Scan(&version); err != nil || version == SchemaVersion {
		return err
	}
	tx, err := b.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
	var have int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return err
	}
	if have > SchemaVersion {
		return newerStore(have)
	}
	for v := have + 1; v <= SchemaVersion; v++ {
		step, err := schemaFiles.ReadFile("schema/" + strconv.Itoa(v) + ".sql")
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(step)+"\nPRAGMA user_version = "+strconv.Itoa(v)); err != nil {
			return fmt.Errorf("schema version %d: %w", v, err)
		}
	}
	return tx.Commit()
}
