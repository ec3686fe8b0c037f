// Package store is the ledger's database: a SQLite file, or PostgreSQL, with the same queries. It has the schema and its migrations, the write
// connection (Book), the read connections (Readers), and the meaning of both databases' errors (Outage). It knows the rows of gateways, and not the
// meaning of the others.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"bardo.money/gateway/policy/ledger/lock"
)

// schemaFiles are the migrations from each version of the store to the next: schema/N.sql migrates a SQLite file from N-1 to N, and schema/postgres/N.sql
// a PostgreSQL database, which begins with a later version.
//
//go:embed schema/*.sql schema/postgres/*.sql
var schemaFiles embed.FS

// SchemaVersion is the version of the store that this program reads and writes. Older stores are migrated, newer ones refused.
const SchemaVersion = 12

// ErrNewer says that a newer program wrote the store.
var ErrNewer = errors.New("the store was written by a newer version of this program")

// newerStore is the error for a store with a later version.
func newerStore(have int) error {
	return fmt.Errorf("%w: its schema is version %d, this program knows up to %d", ErrNewer, have, SchemaVersion)
}

// OpenReads opens the read connections.
func (d *Database) OpenReads(ctx context.Context) (*sql.DB, error) {
	db, err := d.open(ctx, false)
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

// Book is the write connection, with its prepared statements. It belongs to one goroutine at a time. Its
// statements have no context: a write that has begun is not cancelled.
type Book struct {
	*Database

	db       *sql.DB
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
	file     os.FileInfo // the store's file; nil in PostgreSQL
	turn     *lock.Turn
	Instance int64        // the id of the gateway that it writes for; zero for tools
	State    State        // in PostgreSQL
	Hook     func() error // set in tests, to fail commits
}

// Open connects, checks that commits are durable, and migrates the schema.
func (d *Database) Open(ctx context.Context) (*Book, error) {
	db, err := d.open(ctx, true)
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	b := &Book{Database: d, db: db, conn: conn, prepared: map[string]*sql.Stmt{}}
	err = d.prepare(ctx, b)
	if err == nil && d.isFile {
		err = b.openFile()
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// openFile stats the store's file, and opens the locks by which its writers take turns.
func (b *Book) openFile() (err error) {
	if b.file, err = os.Stat(b.Path); err != nil {
		return err
	}
	b.turn, err = lock.OpenTurn(b.Path)
	return err
}

// Close closes the connection.
func (b *Book) Close() error {
	var errs []error
	for _, s := range b.prepared {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, b.conn.Close(), b.db.Close(), b.turn.Close())...)
}

// statement prepares a query, once. Queries are constants, so they are few.
func (b *Book) statement(query string) (*sql.Stmt, error) {
	if s, ok := b.prepared[query]; ok {
		return s, nil
	}
	text, _ := b.translate(query, nil)
	s, err := b.conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	b.prepared[query] = s
	return s, nil
}

// Exec runs a statement and returns how many rows it changed.
func (b *Book) Exec(query string, args ...any) (int64, error) {
	s, err := b.statement(query) //nolint:sqlclosecheck // kept, and closed with the book
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(context.Background(), b.convert(args)...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Do runs statements that have no parameters and no result.
func (b *Book) Do(queries ...string) error {
	for _, q := range queries {
		if _, err := b.Exec(q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// Row runs a query for one row.
func (b *Book) Row(query string, args ...any) Scanner {
	s, err := b.statement(query) //nolint:sqlclosecheck // kept, and closed with the book
	if err != nil {
		return failedRow{err}
	}
	return s.QueryRowContext(context.Background(), b.convert(args)...)
}

// QueryContext runs a query for many rows, in the transaction if there is one.
func (b *Book) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = b.translate(query, args)
	return b.conn.QueryContext(ctx, query, args...)
}

// Scanner is one row, of a query for one row or of many.
type Scanner interface{ Scan(into ...any) error }

// failedRow is the row of a query whose preparation failed.
type failedRow struct{ err error }

// Scan returns the error.
func (f failedRow) Scan(...any) error { return f.err }

// Atomically runs one change in a transaction of its own.
func (b *Book) Atomically(change func() error) error {
	if err := b.CheckFile(); err != nil { // writes to a removed file are lost
		return err
	}
	if err := b.turn.Take(); err != nil {
		return err
	}
	defer b.turn.Release()
	if err := b.begin(b); err != nil {
		return err
	}
	err := change()
	if err == nil && b.Hook != nil {
		err = b.Hook()
	}
	if err == nil && b.intact != "" {
		err = b.Do(b.intact)
	}
	if err == nil {
		err = b.Commit(b)
	}
	if err != nil {
		return errors.Join(err, b.Do("ROLLBACK"))
	}
	return nil
}

// InSavepoint runs a change inside the current transaction, and reverts it if it fails with failed. An error err concerns the whole transaction.
func (b *Book) InSavepoint(change func() error) (failed, err error) {
	if err := b.Do("SAVEPOINT op"); err != nil {
		return nil, err
	}
	if failed = change(); failed == nil {
		return nil, b.Do("RELEASE op")
	}
	if err := b.Do("ROLLBACK TO op", "RELEASE op"); err != nil {
		return failed, fmt.Errorf("%w, after %w", err, failed)
	}
	return failed, nil
}

// Join adds the row of a gateway, and returns its id.
func (b *Book) Join(at time.Time) (instance int64, err error) { return b.add(b, at) }

// Renew sets the time of this gateway's row; renewed is false if the row does not exist.
func (b *Book) Renew(at time.Time) (renewed bool, err error) { return b.renew(b, at) }

// Version is a number, not 0, that changes with every commit of other connections.
func (b *Book) Version() (int64, error) { return b.changeNumber(b) }

// CheckFile is nil while the store's file is at the path where it was opened, else ErrMissing, ErrReplaced, or an error of the file system.
func (b *Book) CheckFile() error {
	replaced, err := b.IsReplaced()
	if replaced {
		return ErrReplaced
	}
	return err
}

// IsReplaced reports whether another file is at the store's path. The error is ErrMissing if there is none.
func (b *Book) IsReplaced() (bool, error) {
	if b.file == nil {
		return false, nil
	}
	now, err := os.Stat(b.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, ErrMissing
	}
	if err != nil {
		return false, err
	}
	return !os.SameFile(b.file, now), nil
}

// reopenTimeout is how long Reopen waits for a busy store.
const reopenTimeout = 10 * time.Second

// Reopen opens a new connection, to the store that is now at the place of this one. After an error the book is unchanged.
func (b *Book) Reopen() error { return b.reopen(reopenTimeout) }

func (b *Book) reopen(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	next, err := b.Open(ctx)
	if err != nil {
		return err
	}
	next.Instance, next.Hook = b.Instance, b.Hook
	if b.inherit != nil {
		err = b.inherit(b, next)
	}
	if err != nil {
		return errors.Join(err, next.Close())
	}
	_ = b.Close() // it may be broken
	*b = *next
	return nil
}
