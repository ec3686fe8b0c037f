package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/mattn/go-sqlite3" // the "sqlite3" driver
)

// schema holds the steps from each version of the store to the next: schema/N.sql leads from N-1 to N.
//
//go:embed schema/*.sql
var schema embed.FS

// SchemaVersion is the version of the store that this program reads and writes. Older stores are brought forward, newer ones refused.
const SchemaVersion = 8

// writeDSN names the store for the writer's connection. The driver and SQLite ignore a parameter that they do not know,
// so openBook reads back what came of them.
func writeDSN(path string) string {
	return dsn(path, url.Values{
		"_journal_mode": {"WAL"}, "_synchronous": {"FULL"}, "_busy_timeout": {"5000"}, "_foreign_keys": {"on"}, "_txlock": {"immediate"},
	})
}

func dsn(path string, params url.Values) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: params.Encode()}).String()
}

// openReads opens the connections that only read.
func openReads(ctx context.Context, path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", dsn(path, url.Values{"_query_only": {"on"}, "_busy_timeout": {"5000"}}))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// book is the one connection that writes, with its prepared statements. It belongs to one goroutine at a time. Its
// statements run under no context: a write that has begun is not abandoned.
type book struct {
	db       *sql.DB
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
	path     string
	file     os.FileInfo // the store's file; nil: nobody looks whether it is still there
	turn     *turn
	instance int64 // the number of the gateway that it writes for; zero for tools
	sums     sums  // what the transaction adds to the sums of usage
	spending spending
	savings  savings
	batch    batch
	hook     func() error // in tests: fails commits
}

// openBook connects, makes sure that commits are as durable as money needs, and brings the schema forward.
func openBook(ctx context.Context, dsn string) (*book, error) {
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	b := &book{db: db, conn: conn, prepared: map[string]*sql.Stmt{}, sums: sums{}, spending: spending{}, savings: savings{}}
	if err := errors.Join(b.checkPragmas(), b.migrate(ctx)); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// checkPragmas reads back the settings that the money depends on.
func (b *book) checkPragmas() error {
	for _, p := range []struct{ query, want string }{
		{"PRAGMA journal_mode", "wal"},
		{"PRAGMA synchronous", "2"}, // FULL: a commit survives a loss of power
		{"PRAGMA foreign_keys", "1"},
		{"PRAGMA busy_timeout", "5000"},
	} {
		var have string
		if err := b.row(p.query).Scan(&have); err != nil {
			return fmt.Errorf("%s: %w", p.query, err)
		}
		if have != p.want {
			return fmt.Errorf("%s is %s, expected %s", p.query, have, p.want)
		}
	}
	return nil
}

// migrate runs the steps that the store lacks, in one transaction.
func (b *book) migrate(ctx context.Context) error {
	var version int
	if err := b.row("PRAGMA user_version").Scan(&version); err != nil || version == SchemaVersion {
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
		return fmt.Errorf("%w: its schema is version %d, this program knows up to %d", ErrNewerStore, have, SchemaVersion)
	}
	for v := have + 1; v <= SchemaVersion; v++ {
		step, err := schema.ReadFile("schema/" + strconv.Itoa(v) + ".sql")
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(step)+"\nPRAGMA user_version = "+strconv.Itoa(v)); err != nil {
			return fmt.Errorf("schema version %d: %w", v, err)
		}
	}
	return tx.Commit()
}

func (b *book) close() error {
	var errs []error
	for _, s := range b.prepared {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, b.conn.Close(), b.db.Close(), b.turn.close())...)
}

// statement is the prepared form of a query. Queries are constants of this package, so they are few.
func (b *book) statement(query string) (*sql.Stmt, error) {
	if s, ok := b.prepared[query]; ok {
		return s, nil
	}
	s, err := b.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	b.prepared[query] = s
	return s, nil
}

// exec runs a statement and returns how many rows it changed.
func (b *book) exec(query string, args ...any) (int64, error) {
	s, err := b.statement(query) //nolint:sqlclosecheck // kept, and closed with the book
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// insert adds a row to a table with a number for each row, and returns it.
func (b *book) insert(query string, args ...any) (int64, error) {
	s, err := b.statement(query) //nolint:sqlclosecheck // kept, and closed with the book
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// do runs statements that have no parameters and no result.
func (b *book) do(queries ...string) error {
	for _, q := range queries {
		if _, err := b.exec(q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// row runs a query for one row.
func (b *book) row(query string, args ...any) scanner {
	s, err := b.statement(query) //nolint:sqlclosecheck // kept, and closed with the book
	if err != nil {
		return failedRow{err}
	}
	return s.QueryRowContext(context.Background(), args...)
}

// scanner is one row, of a query for one row or of many.
type scanner interface{ Scan(into ...any) error }

// failedRow is the row of a query that could not be prepared.
type failedRow struct{ err error }

// Scan returns the error.
func (f failedRow) Scan(...any) error { return f.err }

// atomically runs one change in a transaction of its own.
func (b *book) atomically(change func(*book) error) error {
	if err := b.checkFile(); err != nil { // what is written to a file that was removed is lost
		return err
	}
	if err := b.turn.take(); err != nil {
		return err
	}
	defer b.turn.drop()
	if err := b.do("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := change(b)
	if err == nil {
		err = b.writeSums()
	}
	if err == nil {
		err = b.writeSpending()
	}
	if err == nil {
		err = b.writeSavings()
	}
	if err == nil && b.hook != nil {
		err = b.hook()
	}
	if err == nil {
		err = b.do("COMMIT")
	}
	if err != nil {
		clear(b.sums)
		clear(b.spending)
		clear(b.savings)
		return errors.Join(err, b.do("ROLLBACK"))
	}
	return nil
}

// checkFile is nil while the store's file lies where it was opened.
func (b *book) checkFile() error {
	replaced, err := b.isReplaced()
	if replaced {
		return errReplaced
	}
	return err
}

// isReplaced tells whether another file lies where the store was. The error is errGone when none does.
func (b *book) isReplaced() (bool, error) {
	if b.file == nil {
		return false, nil
	}
	now, err := os.Stat(b.path) //nolint:gosec // the operator names the store
	if errors.Is(err, fs.ErrNotExist) {
		return false, errGone
	}
	if err != nil {
		return false, err
	}
	return !os.SameFile(b.file, now), nil
}

// identify notes which file the store is.
func (b *book) identify() (err error) {
	b.file, err = os.Stat(b.path) //nolint:gosec // the operator names the store
	return err
}

// reopen connects anew, to whatever file lies where the store was. After an error everything is as before.
func (b *book) reopen() error {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	next, err := openBook(ctx, existing(writeDSN(b.path)))
	if err != nil {
		return err
	}
	next.path, next.instance, next.hook = b.path, b.instance, b.hook
	if next.turn, err = openTurn(b.path); err == nil {
		err = next.identify()
	}
	if err != nil {
		return errors.Join(err, next.close())
	}
	_ = b.close() // it may be broken
	*b = *next
	return nil
}

// existing is a DSN that makes no new file.
func existing(dsn string) string { return dsn + "&mode=rw" }

// isUnique says whether an error is a violation of uniqueness.
func isUnique(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) &&
		(e.ExtendedCode == sqlite3.ErrConstraintUnique || e.ExtendedCode == sqlite3.ErrConstraintPrimaryKey)
}

// isCheck says whether an error is a violation of a CHECK constraint.
func isCheck(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && e.ExtendedCode == sqlite3.ErrConstraintCheck
}
