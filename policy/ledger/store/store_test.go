package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheStepsOfTheSchemaAreComplete(t *testing.T) {
	steps, err := fs.Glob(schemaFiles, "schema/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	later, err := fs.Glob(schemaFiles, "schema/postgres/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != SchemaVersion || len(later) != SchemaVersion-firstPostgres+1 {
		t.Errorf("%d steps, and %d of PostgreSQL, for version %d", len(steps), len(later), SchemaVersion)
	}
}

func TestWrongSettingsAreDetected(t *testing.T) {
	good := url.Values{
		"_journal_mode": {"WAL"}, "_synchronous": {"FULL"}, "_busy_timeout": {"5000"}, "_foreign_keys": {"on"},
	}
	for _, c := range []struct{ sentence, drop, add, value, want string }{
		{"a misspelt synchronous", "_synchronous", "_synchronus", "FULL", "PRAGMA synchronous is 1, expected 2"},
		{"synchronous NORMAL", "_synchronous", "_synchronous", "NORMAL", "PRAGMA synchronous is 1, expected 2"},
		{"a rollback journal", "_journal_mode", "_journal_mode", "DELETE", "PRAGMA journal_mode is delete, expected wal"},
		{"a misspelt foreign_keys", "_foreign_keys", "_foreignkeys", "on", "PRAGMA foreign_keys is 0, expected 1"},
		{"a short busy timeout", "_busy_timeout", "_busy_timeout", "1", "PRAGMA busy_timeout is 1, expected 5000"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			params := maps.Clone(good)
			params.Del(c.drop)
			params.Set(c.add, c.value)
			name := dsn(filepath.Join(t.TempDir(), "bardo.db"), params)
			d := Database{Dialect: sqliteDialect, open: func(context.Context, bool) (*sql.DB, error) { return sql.Open("sqlite3", name) }}
			_, err := d.Open(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestRowsAreNumberedAcrossAStatement(t *testing.T) {
	r := NewBulk("INSERT INTO t VALUES ", "($1, $2 + $1, $10$3$4$5$6$7$8$9)", "")
	if have, want := r.queries[2](), "INSERT INTO t VALUES (?1, ?2 + ?1, ?10?3?4?5?6?7?8?9), (?11, ?12 + ?11, ?20?13?14?15?16?17?18?19), "+
		"(?21, ?22 + ?21, ?30?23?24?25?26?27?28?29), (?31, ?32 + ?31, ?40?33?34?35?36?37?38?39)"; have != want {
		t.Errorf("%s, want %s", have, want)
	}
}

func TestQueriesAreSpelledForPostgreSQL(t *testing.T) {
	for query, want := range map[string]string{
		`SELECT a FROM t WHERE b = ? AND c = ?`:               `SELECT a FROM t WHERE b = $1 AND c = $2`,
		`SELECT ?2, ?1, ?12`:                                  `SELECT $2, $1, $12`,
		`SELECT '$.x ? (@ == "it''s")', ? FROM t NOT INDEXED`: `SELECT '$.x ? (@ == "it''s")', $1 FROM t`,
	} {
		if have := rewriteForPostgres(query); have != want {
			t.Errorf("%s, want %s", have, want)
		}
	}
}

// unsent is the driver's error if nothing was sent.
type unsent bool

func (unsent) Error() string { return "conn closed" }

// SafeToRetry is what the driver calls it.
func (u unsent) SafeToRetry() bool { return bool(u) }

func TestWhatWasNotSentIsAnOutage(t *testing.T) {
	for _, c := range []struct {
		err  error
		away bool
	}{
		{unsent(true), true},
		{fmt.Errorf("request r: %w", unsent(true)), true},
		{unsent(false), false},
		{errors.Join(unsent(true), context.Canceled), false}, // the caller does not wait
		{errors.Join(unsent(true), context.DeadlineExceeded), true},
	} {
		if reason, away := Outage(c.err); away != c.away || away && reason != Unreachable {
			t.Errorf("%v: %q %v", c.err, reason, away)
		}
	}
}
