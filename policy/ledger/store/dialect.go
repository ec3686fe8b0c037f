package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/mattn/go-sqlite3"
)

// Dialect has the differences between SQLite (sqlite.go) and PostgreSQL (postgres.go). Queries are written once, in SQLite's syntax, and
// rewrite translates them.
type Dialect struct {
	rewrite     func(query string) string // nil: unchanged
	convertArgs func(args []any) []any    // nil: unchanged
	isolation   *sql.TxOptions            // of a read transaction on a snapshot

	prepare      func(context.Context, *Book) error      // checks the settings that durable commits need on a new connection, and migrates the schema
	inherit      func(before, next *Book) error          // takes over the state of the lost connection; may be nil
	begin        func(*Book) error                       // begins a transaction, exclusively among writers; after an error there is none
	intact       string                                  // a statement that fails if an earlier one of the transaction has, in a database whose commit does not; else ""
	Commit       func(*Book) error                       // ends the transaction
	changeNumber func(*Book) (changing int64, err error) // a number, not 0, that changes with every commit of other connections

	InList     string             // the condition that a value is in a list, which is one parameter
	StringList func([]string) any // makes the parameter
	IntList    func([]int64) any  // likewise

	add   func(b *Book, at time.Time) (instance int64, err error) // adds the row of a gateway
	renew func(b *Book, at time.Time) (renewed bool, err error)   // sets the time of that row; false if it does not exist
	Idle  string                                                  // microseconds since a gateway's row was renewed

	Day            string // formats a day, in days since 1970, as 2006-01-02
	RequestMatches string // conditions on model, provider and status, in a request's columns and its record: parameters 2 to 6
	WithPending    string // the rows of requests, with those of a JSON array that is parameter 10
	Audits         []Invariant
}

// Invariant is a query that returns a sentence for every row that violates it.
type Invariant struct{ Name, Query string }

// RequestColumns are the columns of a request's row, in the order in which they are scanned.
const RequestColumns = `id, account, at, provider, model, subsystem, status,
	input, cached, cache_write, output, reasoning, amount, charged, provider_cost, record, savings, agent`

// Database is the location of a store.
type Database struct {
	*Dialect

	open   func(ctx context.Context, writes bool) (*sql.DB, error)
	Path   string // the prefix of the files beside it
	isFile bool
}

// convert converts parameters for the database.
func (d *Dialect) convert(args []any) []any {
	if d.convertArgs == nil {
		return args
	}
	return d.convertArgs(args)
}

// translate translates a query and its parameters for the database.
func (d *Dialect) translate(query string, args []any) (string, []any) {
	if d.rewrite != nil {
		query = d.rewrite(query)
	}
	return query, d.convert(args)
}

// queries are the connections and transactions of database/sql.
type queries interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// translated runs queries after their translation.
type translated struct {
	*Dialect

	on queries
}

// QueryContext is that of database/sql.
func (s translated) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = s.translate(query, args)
	return s.on.QueryContext(ctx, query, args...)
}

// QueryRowContext is that of database/sql.
func (s translated) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	query, args = s.translate(query, args)
	return s.on.QueryRowContext(ctx, query, args...)
}

// Snapshot is a read transaction. It must be closed.
type Snapshot struct {
	translated

	tx *sql.Tx
}

// Close ends the transaction.
func (s *Snapshot) Close() { _ = s.tx.Rollback() } // nothing was written

// IsUnique reports whether an error is a violation of uniqueness.
func IsUnique(err error) bool {
	if e, ok := errors.AsType[sqlite3.Error](err); ok {
		return e.ExtendedCode == sqlite3.ErrConstraintUnique || e.ExtendedCode == sqlite3.ErrConstraintPrimaryKey
	}
	return sqlState(err) == "23505"
}

// IsCheck reports whether an error is a violation of a CHECK constraint.
func IsCheck(err error) bool {
	if e, ok := errors.AsType[sqlite3.Error](err); ok {
		return e.ExtendedCode == sqlite3.ErrConstraintCheck
	}
	return sqlState(err) == "23514"
}
