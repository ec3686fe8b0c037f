package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/mattn/go-sqlite3"
)

// Dialect is what differs between SQLite (sqlite.go) and PostgreSQL (postgres.go). The rest is written once: queries are in SQLite's form,
// which spell writes as the database reads it.
type Dialect struct {
	spell     func(query string) string // nil: as it is
	values    func(args []any) []any    // nil: as they are
	isolation *sql.TxOptions            // of a transaction that reads everything as it was at one time

	prepare func(context.Context, *Book) error      // checks the settings of a new connection that money needs, and brings the schema forward
	inherit func(before, next *Book) error          // takes over what was known of the store before the connection was lost; may be nil
	begin   func(*Book) error                       // begins a transaction that no other writer's overlaps; after an error there is none
	intact  string                                  // a statement that fails if one of the transaction has, where a commit does not; else ""
	Commit  func(*Book) error                       // ends it
	version func(*Book) (changing int64, err error) // a number, not 0, that changes with every commit of other connections

	Among   string             // the condition of being in a list, which is one parameter
	Texts   func([]string) any // that parameter
	Numbers func([]int64) any  // as above

	add   func(b *Book, at time.Time) (instance int64, err error) // adds the row of a gateway
	renew func(b *Book, at time.Time) (renewed bool, err error)   // sets the time of that row; false if it is not there
	Idle  string                                                  // for how many microseconds a row of a gateway was not renewed

	Day      string // a day, in days since 1970, as 2006-01-02
	LookInto string // conditions on the model, the provider and the status of a request, and what its record has of them: parameters 2 to 6
	Waiting  string // rows of requests, from a JSON array that is parameter 10
	Audits   []Invariant
}

// Invariant is a query that returns a sentence for every row that violates it.
type Invariant struct{ Name, Query string }

// RequestColumns are those of a request's row, in the order of its readers.
const RequestColumns = `id, account, at, provider, model, subsystem, status,
	input, cached, cache_write, output, reasoning, amount, charged, provider_cost, record, savings, agent`

// Database is where a store is.
type Database struct {
	*Dialect

	open   func(ctx context.Context, writes bool) (*sql.DB, error)
	Path   string // what the names of the files beside it begin with
	isFile bool
}

// given are parameters as the database takes them.
func (d *Dialect) given(args []any) []any {
	if d.values == nil {
		return args
	}
	return d.values(args)
}

// written is a query with its parameters as the database reads them.
func (d *Dialect) written(query string, args []any) (string, []any) {
	if d.spell != nil {
		query = d.spell(query)
	}
	return query, d.given(args)
}

// queries are the connections and transactions of database/sql.
type queries interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// spelled runs queries in a dialect.
type spelled struct {
	*Dialect

	on queries
}

// QueryContext is that of database/sql.
func (s spelled) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = s.written(query, args)
	return s.on.QueryContext(ctx, query, args...)
}

// QueryRowContext is that of database/sql.
func (s spelled) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	query, args = s.written(query, args)
	return s.on.QueryRowContext(ctx, query, args...)
}

// Snapshot is a transaction that reads. It must be closed.
type Snapshot struct {
	spelled

	tx *sql.Tx
}

// Close ends the transaction.
func (s *Snapshot) Close() { _ = s.tx.Rollback() } // nothing was written

// IsUnique says whether an error is a violation of uniqueness.
func IsUnique(err error) bool {
	if e, ok := errors.AsType[sqlite3.Error](err); ok {
		return e.ExtendedCode == sqlite3.ErrConstraintUnique || e.ExtendedCode == sqlite3.ErrConstraintPrimaryKey
	}
	return sqlState(err) == "23505"
}

// IsCheck says whether an error is a violation of a CHECK constraint.
func IsCheck(err error) bool {
	if e, ok := errors.AsType[sqlite3.Error](err); ok {
		return e.ExtendedCode == sqlite3.ErrConstraintCheck
	}
	return sqlState(err) == "23514"
}
