package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// schema holds the steps from each version of the store to the next: schema/N.sql leads a file of SQLite from N-1 to N, and schema/postgres/N.sql
// a PostgreSQL database, which begins with a later version.
//
//go:embed schema/*.sql schema/postgres/*.sql
var schema embed.FS

// SchemaVersion is the version of the store that this program reads and writes. Older stores are brought forward, newer ones refused.
const SchemaVersion = 8

// newerStore is the error of a store with a later version.
func newerStore(have int) error {
	return fmt.Errorf("%w: its schema is version %d, this program knows up to %d", ErrNewerStore, have, SchemaVersion)
}

// openReads opens the connections that only read.
func (d *database) openReads(ctx context.Context) (*sql.DB, error) {
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

// book is the one connection that writes, with its prepared statements. It belongs to one goroutine at a time. Its
// statements run under no context: a write that has begun is not abandoned.
type book struct {
	*database

	db       *sql.DB
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
	file     os.FileInfo // the store's file; nil: nobody looks whether it is still there
	turn     *turn
	instance int64 // the number of the gateway that it writes for; zero for tools
	sums     sums  // what the transaction adds to the sums of usage
	spending spending
	savings  savings
	batch    batch
	place    place        // in PostgreSQL
	hook     func() error // in tests: fails commits
}

// openBook connects, makes sure that commits are as durable as money needs, and brings the schema forward.
func (d *database) openBook(ctx context.Context) (*book, error) {
	db, err := d.open(ctx, true)
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	b := &book{database: d, db: db, conn: conn, prepared: map[string]*sql.Stmt{}, sums: sums{}, spending: spending{}, savings: savings{}}
	if err := d.prepare(ctx, b); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
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
	text, _ := b.written(query, nil)
	s, err := b.conn.PrepareContext(context.Background(), text)
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
	res, err := s.ExecContext(context.Background(), b.given(args)...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
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
	return s.QueryRowContext(context.Background(), b.given(args)...)
}

// QueryContext runs a query for many rows, in the transaction if there is one.
func (b *book) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = b.written(query, args)
	return b.conn.QueryContext(ctx, query, args...)
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
	if err := b.begin(b); err != nil {
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
	if err == nil && b.intact != "" {
		err = b.do(b.intact)
	}
	if err == nil {
		err = b.commit(b)
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

// reopen connects anew, to whatever store is where this one was. After an error everything is as before.
func (b *book) reopen() error {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	next, err := b.openBook(ctx)
	if err != nil {
		return err
	}
	next.instance, next.hook = b.instance, b.hook
	if b.inherit != nil {
		err = b.inherit(b, next)
	}
	if err == nil && b.file != nil {
		if next.turn, err = openTurn(b.path); err == nil {
			err = next.identify()
		}
	}
	if err != nil {
		return errors.Join(err, next.close())
	}
	_ = b.close() // it may be broken
	*b = *next
	return nil
}
