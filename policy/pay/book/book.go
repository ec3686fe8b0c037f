// Package book stores payments and their states: in a SQLite file beside the ledger, which the gateways of one machine share, or in the PostgreSQL database
// of the ledger, which those of several machines do. It decides who may use a payment: one request at a time, and one that was served for ever. It knows
// neither the chain nor the ledger.
//
// A payment has two states. It is serving while a request is served for it, then served, or released if the request cost nothing: then it may be used again.
// Its settlement is none, settling once a transaction is signed, confirmed when it is in a block, final when that block is deep, or failed when the
// authorization can never be used any more.
package book

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/pay"
)

// Place is where a store of payments is: a file of this machine, or a PostgreSQL database.
type Place struct {
	File    string        // "" with a database
	URL     string        // of the database
	Connect store.Connect // to the database
	Dir     string        // with a database: the gateways that have it know at once which of them have ended
}

// Beside is the store that belongs to a ledger: tables of its database, or a file beside its own. file is the ledger's, or one in whose folder the files
// beside it are.
func Beside(ledger, file string, connect store.Connect) Place {
	dir := filepath.Dir(file)
	if store.IsPostgres(ledger) {
		return Place{URL: ledger, Connect: connect, Dir: dir}
	}
	return Place{File: filepath.Join(dir, "payments.db")}
}

// InFile is a store in a file.
func InFile(path string) Place { return Place{File: path} }

// Book is an open store of payments. Safe for concurrent use.
type Book struct {
	queries

	db     *sql.DB
	holder string // this gateway's name in the store
	peers  peers  // nil: this one only reads
	mark   pay.Mark
	now    func() time.Time
}

// peers is how the gateways that share a store know of each other.
type peers interface {
	// present makes sure that the others take this gateway for one that runs.
	present(ctx context.Context) error
	// running tells of other gateways whether they run.
	running(ctx context.Context) (func(holder string) (bool, error), error)
	// claim makes this gateway the one that settles, unless another one that runs is; it may be repeated.
	claim(ctx context.Context) (ok bool, err error)
	// yield lets another gateway settle.
	yield(ctx context.Context) error
	// fence begins a transaction of the one that settles. The error is ErrLost where that is another gateway.
	fence(ctx context.Context, tx queries) error
	// serialize lets one transaction that reserves wait for another's end.
	serialize(ctx context.Context, tx queries) error
	// leave ends this gateway's part.
	leave() error
}

// Open opens a store, makes it if there is none, and takes part in it as a gateway of its own.
func Open(ctx context.Context, at Place, now func() time.Time) (b *Book, err error) {
	b = &Book{holder: strings.ToLower(rand.Text()[:16]), now: now}
	if at.File != "" {
		err = b.openFile(ctx, at.File)
	} else {
		err = b.openDatabase(ctx, at)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("payments: %w", err), b.Close())
	}
	return b, nil
}

// Mark is what the transactions of this store's gateways have, and those of others have not.
func (b *Book) Mark() pay.Mark { return b.mark }

// Close ends this gateway's part in the store.
func (b *Book) Close() error {
	var errs []error
	if b.peers != nil {
		errs = append(errs, b.peers.leave())
	}
	if b.db != nil {
		errs = append(errs, b.db.Close())
	}
	return errors.Join(errs...)
}

// Claim makes this gateway the one that settles, unless another one is; ok tells. It has to be claimed again from time to time, and ends with Yield or the
// gateway. What a gateway writes of settlements that has lost it meanwhile is refused with ErrLost.
func (b *Book) Claim(ctx context.Context) (ok bool, err error) { return b.peers.claim(ctx) }

// Yield lets another gateway settle.
func (b *Book) Yield(ctx context.Context) error { return b.peers.yield(ctx) }

// atomically runs a transaction, which may be repeated as a whole.
func (b *Book) atomically(ctx context.Context, do func(tx queries) error) error {
	return again(ctx, func() error {
		tx, err := b.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
		if err := do(queries{tx, b.spell}); err != nil {
			return err
		}
		return tx.Commit()
	})
}

// executor is a database or a transaction on it.
type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// queries runs queries, which are in SQLite's form.
type queries struct {
	on    executor
	spell func(query string, args []any) (string, []any) // nil: as they are
}

func (q queries) written(query string, args []any) (text string, values []any) {
	if q.spell == nil {
		return query, args
	}
	return q.spell(query, args)
}

// exec returns how many rows a statement changed.
func (q queries) exec(ctx context.Context, query string, args ...any) (int64, error) {
	query, args = q.written(query, args)
	r, err := q.on.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (q queries) row(ctx context.Context, query string, args ...any) *sql.Row {
	query, args = q.written(query, args)
	return q.on.QueryRowContext(ctx, query, args...)
}

func (q queries) rows(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = q.written(query, args)
	return q.on.QueryContext(ctx, query, args...)
}

// Bounds of how often a query is tried whose connection to a database is lost: for about three seconds, in which a database starts again.
const (
	tries      = 7
	firstPause = 50 * time.Millisecond
)

// again runs what may be repeated until the connection to the database holds.
func again(ctx context.Context, do func() error) (err error) {
	pause := firstPause
	for try := 1; ; try, pause = try+1, 2*pause {
		if err = do(); try == tries || ctx.Err() != nil || !store.IsLost(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
