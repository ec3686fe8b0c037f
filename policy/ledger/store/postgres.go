package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// In PostgreSQL, a writer begins each transaction by an update of the single row of the table ledger, which counts transactions. This serializes writers, like
// SQLite's lock. Nothing else is locked: later statements of the transaction read everything that others have committed.

// ErrNoPostgres says that this program has no PostgreSQL driver.
var ErrNoPostgres = errors.New("this program cannot keep a ledger in PostgreSQL")

// ErrUnreachable says that a PostgreSQL database does not answer, or denies access.
var ErrUnreachable = errors.New("the database cannot be reached")

// Connect opens connections to a PostgreSQL database. A write connection waits a few seconds for a lock at most, and for an answer no longer than the statement
// timeout; its session ends soon after its network connection is lost.
type Connect func(ctx context.Context, url string, writes bool) (*sql.DB, error)

// IsPostgres reports whether the name of a store is the URL of a PostgreSQL database.
func IsPostgres(store string) bool {
	return strings.HasPrefix(store, "postgres://") || strings.HasPrefix(store, "postgresql://")
}

// Redacted is the name of a store without passwords, which may also be in the URL's parameters.
func Redacted(store string) string {
	if !IsPostgres(store) {
		return store
	}
	u, err := url.Parse(store)
	if err != nil {
		return "in PostgreSQL"
	}
	u.RawQuery = ""
	return u.Redacted()
}

// now is the time of the database's clock, in microseconds since 1970.
const now = `CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)`

// SQL expressions for PostgreSQL, in microseconds: the time of the database's clock since 1970; and the time since a gateway's row was renewed (column at), or
// since the database was started, because it cannot be renewed while that is down.
const (
	NowPostgres  = now
	IdlePostgres = `least(` + now + ` - at, ` + now + ` - CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000 AS BIGINT))`
)

var postgresDialect = &Dialect{
	rewrite:     rewrites.rewrite,
	convertArgs: convertForPostgres,
	isolation:   &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},

	inherit: inheritState,
	begin:   beginExclusive,
	intact:  "SAVEPOINT intact",
	Commit:  commitVerified,
	changeNumber: func(b *Book) (changes int64, err error) {
		err = b.Row(`SELECT changes FROM ledger`).Scan(&changes)
		return changes - b.State.own + 1, err // never 0
	},

	InList:     `= ANY (?)`,
	StringList: func(list []string) any { return cleanAll(list) },
	IntList:    func(list []int64) any { return list },

	add: func(b *Book, _ time.Time) (id int64, err error) {
		err = b.Row(`INSERT INTO instance (id, at) SELECT greatest(` + now + `, coalesce(max(id), 0) + 1), ` + now + ` FROM instance RETURNING id`).Scan(&id)
		return id, err
	},
	renew: func(b *Book, _ time.Time) (bool, error) {
		n, err := b.Exec(`UPDATE instance SET at = `+now+` WHERE id = ?`, b.Instance)
		return n == 1, err
	},
	Idle: IdlePostgres,

	Day: `to_char(to_timestamp(day * 86400) AT TIME ZONE 'UTC', 'YYYY-MM-DD')`,
	RequestMatches: `
	AND (?2 = '' OR model = ?2 OR record_json(record) ->> 'requested_model' = ?2)
	AND (?3 = '' OR provider = ?3 OR jsonb_path_exists(record_json(record), '$.attempt_log[*] ? (@.provider == $p)', jsonb_build_object('p', CAST(?3 AS TEXT))))
	AND (?4 = '' OR status = ?4 OR record_json(record) ->> 'error' = ?4 OR jsonb_path_exists(record_json(record),
		'$.http_status ? (@ >= $low && @ <= $high)', jsonb_build_object('low', CAST(?5 AS BIGINT), 'high', CAST(?6 AS BIGINT))))`,
	WithPending: `(SELECT rowid, ` + RequestColumns + ` FROM request UNION ALL
	SELECT (CAST(1 AS BIGINT) << 61) + number, value ->> 0, value ->> 1, CAST(value ->> 2 AS BIGINT), value ->> 3, value ->> 4, value ->> 5, value ->> 6,
	CAST(value ->> 7 AS BIGINT), CAST(value ->> 8 AS BIGINT), CAST(value ->> 9 AS BIGINT), CAST(value ->> 10 AS BIGINT), CAST(value ->> 11 AS BIGINT),
	CAST(value ->> 12 AS BIGINT), CAST(value ->> 13 AS BIGINT), CAST(value ->> 14 AS BIGINT), convert_to(value ->> 15, 'UTF8'), value ->> 16, value ->> 17
	FROM json_array_elements(CAST(replace(?10, '\u0000', '\ufffd') AS JSON)) WITH ORDINALITY AS waiting (value, number)) AS request`,
	Audits: []Invariant{
		{"every row refers to a row", strings.Join([]string{
			orphans(`"key"`, "id", "account", "name"), orphans("balance", "account", "account", "id"),
			orphans("block", "account", "balance", "account"), orphans("block", "instance", "instance", "id"),
			orphans("entry", "journal", "journal", "id"), orphans("entry", "account", "account", "id"),
			orphans("request", "journal", "journal", "id"), orphans("standing", "account", "balance", "account"),
			orphans("forgiven", "account", "balance", "account"), orphans("forgiven", "journal", "journal", "id"),
		}, " UNION ALL ") + ` LIMIT 100`},
		{"the database is intact", `
SELECT format('%s pages of the database failed their checksum', checksum_failures) FROM pg_stat_database
WHERE datname = current_database() AND checksum_failures > 0`},
	},
}

// orphans selects a table's rows whose referenced row does not exist.
func orphans(table, column, parent, key string) string {
	return fmt.Sprintf(`SELECT format('%%s %%s refers to a missing %[3]s', '%[1]s', c.%[2]s) FROM %[1]s c LEFT JOIN %[3]s p ON p.%[4]s = c.%[2]s
WHERE c.%[2]s IS NOT NULL AND p.%[4]s IS NULL`, table, column, parent, key)
}

// PostgreSQL is a store in a database. Charge logs and locks of this machine are in dir, and named by the ledger's id.
func PostgreSQL(url string, connect Connect, dir string) (*Database, error) {
	if connect == nil {
		return nil, ErrNoPostgres
	}
	d := *postgresDialect
	d.prepare = func(ctx context.Context, b *Book) error {
		if err := b.checkSettings(); err != nil {
			return err
		}
		err := b.migrateDatabase(ctx)
		b.Path = filepath.Join(dir, "ledger-"+b.State.ledger)
		return err
	}
	return &Database{Dialect: &d, open: func(ctx context.Context, writes bool) (*sql.DB, error) { return connect(ctx, url, writes) }}, nil
}

// checkSettings checks the settings that durable commits depend on.
func (b *Book) checkSettings() error {
	for _, s := range []struct{ setting, never string }{
		{"fsync", "off"},              // a crash of the database's machine may corrupt everything
		{"synchronous_commit", "off"}, // a commit may be lost after it was acknowledged
	} {
		var have string
		if err := b.Row(`SELECT current_setting(?)`, s.setting).Scan(&have); err != nil {
			return fmt.Errorf("setting %s: %w", s.setting, err)
		}
		if have == s.never {
			return fmt.Errorf("the database's setting %s is %s: a charge could be lost", s.setting, have)
		}
	}
	return nil
}

// firstPostgres is the version that a ledger in PostgreSQL begins with.
const firstPostgres = 8

// migrateDatabase runs the missing migrations in one transaction, under an advisory lock.
func (b *Book) migrateDatabase(ctx context.Context) error {
	tx, err := b.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
	have, err := versionOf(ctx, tx)
	if err != nil {
		return err
	}
	if have > SchemaVersion {
		return newerStore(have)
	}
	for v := max(have+1, firstPostgres); v <= SchemaVersion; v++ {
		step, err := schemaFiles.ReadFile("schema/postgres/" + strconv.Itoa(v) + ".sql")
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(step)); err != nil {
			return fmt.Errorf("schema version %d: %w", v, err)
		}
		if _, err := tx.ExecContext(ctx, `UPDATE ledger SET version = $1`, v); err != nil {
			return err
		}
	}
	if err := tx.QueryRowContext(ctx, `SELECT id, changes FROM ledger`).Scan(&b.State.ledger, &b.State.changes); err != nil {
		return err
	}
	return tx.Commit()
}

// versionOf takes the advisory lock and returns the schema's version, zero if there is no schema.
func versionOf(ctx context.Context, tx *sql.Tx) (have int, err error) {
	const lock = 0x626172646f // an arbitrary number
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, lock); err != nil {
		return 0, err
	}
	var there bool
	if err := tx.QueryRowContext(ctx, `SELECT current_schema() IS NOT NULL AND to_regclass('ledger') IS NOT NULL`).Scan(&there); err != nil {
		return 0, err
	}
	if there {
		err = tx.QueryRowContext(ctx, `SELECT version FROM ledger`).Scan(&have)
		return have, err
	}
	return 0, MakeSchema(ctx, tx)
}

// MakeSchema creates the schema of the connection's search path, if it is missing.
func MakeSchema(ctx context.Context, tx *sql.Tx) error {
	var create sql.NullString
	const missing = `SELECT CASE WHEN current_schema() IS NULL THEN format('CREATE SCHEMA %I', trim(split_part(current_setting('search_path'), ',', 1), ' "')) END`
	if err := tx.QueryRowContext(ctx, missing).Scan(&create); err != nil || !create.Valid {
		return err
	}
	_, err := tx.ExecContext(ctx, create.String)
	return err
}

// ForPostgres translates a query in SQLite's syntax, and its parameters, for PostgreSQL. Queries are constants of the program: each is translated once.
func ForPostgres(query string, args []any) (text string, values []any) {
	return rewrites.rewrite(query), convertForPostgres(args)
}

// rewriter translates queries, each once. Queries are constants, so they are few.
type rewriter struct{ cache sync.Map }

var rewrites rewriter

func (s *rewriter) rewrite(query string) string {
	if text, ok := s.cache.Load(query); ok {
		text, _ := text.(string)
		return text
	}
	text := rewriteForPostgres(query)
	s.cache.Store(query, text)
	return text
}

// rewriteForPostgres replaces parameters, ? and ?12, by $1 and $12, and removes SQLite's hints.
func rewriteForPostgres(query string) string {
	query = strings.ReplaceAll(query, " NOT INDEXED", "")
	var b strings.Builder
	quoted, count := false, 0
	for i := range len(query) {
		c := query[i]
		quoted = quoted != (c == '\'')
		if c != '?' || quoted {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('$')
		if i+1 == len(query) || query[i+1] < '0' || query[i+1] > '9' {
			count++
			b.WriteString(strconv.Itoa(count))
		}
	}
	return b.String()
}

// convertForPostgres converts parameters: booleans to 0 and 1, as in SQLite; in strings it replaces NUL characters and invalid UTF-8, which PostgreSQL
// refuses. Callers may send both, and a charge must not be refused for that.
func convertForPostgres(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch v := reflect.ValueOf(a); v.Kind() {
		case reflect.Bool:
			out[i] = int64(0)
			if v.Bool() {
				out[i] = int64(1)
			}
		case reflect.String:
			out[i] = clean(v.String())
		default:
			out[i] = a
		}
	}
	return out
}

func clean(s string) string {
	const unknown = "\uFFFD"
	return strings.ReplaceAll(strings.ToValidUTF8(s, unknown), "\x00", unknown)
}

func cleanAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = clean(s)
	}
	return out
}
