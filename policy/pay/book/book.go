// Package book stores payments and their states: in a SQLite file beside the ledger, shared by the gateways of one machine, or in the ledger's PostgreSQL
// database, shared by gateways of several machines. It ensures that one request at a time uses a payment, and none after a request was served for it. It knows
// neither the chain nor the ledger.
//
// A payment has two states. Its service is serving while a request is served for it, then served, or released if the request cost nothing: a released payment
// may be used again. Its settlement is none; settling once a transaction is signed; confirmed once it is in a block; final once that block is deep; or failed
// once the authorization can no longer be used.
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

// Place is the location of a store of payments: a file of this machine, or a PostgreSQL database.
type Place struct {
	File    string        // "" with a database
	URL     string        // of the database
	Connect store.Connect // to the database
	Dir     string        // with a database: gateways with the same directory detect each other's end immediately
}

// Beside returns the store of a ledger's payments: tables of its database, or a file beside its file. file is the ledger's file, or another one in the same
// directory.
func Beside(ledger, file string, connect store.Connect) Place {
	dir := filepath.Dir(file)
	if store.IsPostgres(ledger) {
		return Place{URL: ledger, Connect: connect, Dir: dir}
	}
	return Place{File: filepath.Join(dir, "payments.db")}
}

// InFile returns the store in a file.
func InFile(path string) Place { return Place{File: path} }

// Book is an open store of payments. Safe for concurrent use.
type Book struct {
	queries

	db     *sql.DB
	holder string // id of this gateway in the store
	peers  peers  // nil: this one only reads
	mark   pay.Mark
	now    func() time.Time
}

// peers coordinates the gateways that share a store.
type peers interface {
	// ensureLease ensures that the other gateways see this one as running.
	ensureLease(ctx context.Context) error
	// running returns a function that reports whether a gateway is running.
	running(ctx context.Context) (func(holder string) (bool, error), error)
	// claim makes this gateway the settling one, unless another running one is; it may be repeated.
	claim(ctx context.Context) (ok bool, err error)
	// yield lets another gateway settle.
	yield(ctx context.Context) error
	// fence begins a transaction of the settling gateway. The error is ErrLost if that is another one.
	fence(ctx context.Context, tx queries) error
	// serialize makes transactions that reserve payments wait for each other.
	serialize(ctx context.Context, tx queries) error
	// close ends the participation of this gateway.
	close() error
}

// Open opens a store as a gateway, and creates the store if there is none.
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

// Mark identifies this store in its gateways' transactions.
func (b *Book) Mark() pay.Mark { return b.mark }

// Close ends the participation of this gateway, and closes the store.
func (b *Book) Close() error {
	var errs []error
	if b.peers != nil {
		errs = append(errs, b.peers.close())
	}
	if b.db != nil {
		errs = append(errs, b.db.Close())
	}
	return errors.Join(errs...)
}

// Claim makes this gateway the settling one, unless another one is; ok reports whether it is. It has to be repeated periodically, and ends with Yield or the
// gateway. Writes of a gateway that no longer is the settling one are refused with ErrLost.
func (b *Book) Claim(ctx context.Context) (ok bool, err error) { return b.peers.claim(ctx) }

// Yield lets another gateway settle.
func (b *Book) Yield(ctx context.Context) error { return b.peers.yield(ctx) }

// atomically runs a transaction, and repeats it if the connection is lost.
func (b *Book) atomically(ctx context.Context, do func(tx queries) error) error {
	return retryLost(ctx, func() error {
		tx, err := b.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
		if err := do(queries{tx, b.translate}); err != nil {
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

// queries runs queries, which are written in SQLite's dialect.
type queries struct {
	on        executor
	translate func(query string, args []any) (string, []any) // translates them; nil: not needed
}

func (q queries) translated(query string, args []any) (text string, values []any) {
	if q.translate == nil {
		return query, args
	}
	return q.translate(query, args)
}

// exec returns how many rows a statement changed.
func (q queries) exec(ctx context.Context, query string, args ...any) (int64, error) {
	query, args = q.translated(query, args)
	r, err := q.on.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (q queries) row(ctx context.Context, query string, args ...any) *sql.Row {
	query, args = q.translated(query, args)
	return q.on.QueryRowContext(ctx, query, args...)
}

func (q queries) rows(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = q.translated(query, args)
	return q.on.QueryContext(ctx, query, args...)
}

// Bounds of retries of a query whose connection to the database is lost: about three seconds, in which a database can restart. One that takes connections and
// does not answer is not asked again.
const (
	maxAttempts = 7
	maxRetry    = 4 * time.Second
	firstPause  = 50 * time.Millisecond
)

// retryLost runs do, and repeats it while the connection to the database is lost, for maxRetry.
func retryLost(ctx context.Context, do func() error) (err error) {
	pause, began := firstPause, time.Now()
	for attempt := 1; ; attempt, pause = attempt+1, 2*pause {
		if err = do(); attempt == maxAttempts || time.Since(began) > maxRetry || ctx.Err() != nil || !store.IsLost(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
