package store

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
)

// Readers are the read connections. They are replaced when the store's file was replaced.
type Readers struct {
	*Dialect

	current  atomic.Pointer[sql.DB]
	previous *sql.DB // closed at the next replacement, because queries may still use it
}

// Replace switches to other connections for later queries. Only one goroutine may call it.
func (r *Readers) Replace(db *sql.DB) {
	if r.previous != nil {
		_ = r.previous.Close()
	}
	r.previous = r.current.Swap(db)
}

// Close closes the current and the previous connections.
func (r *Readers) Close() error {
	var errs []error
	for _, db := range []*sql.DB{r.previous, r.current.Load()} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// readTries is the maximum number of attempts of a read whose connection is lost: after a restart of the database all pooled connections are.
const readTries = 5

// QueryContext is that of sql.DB.
func (r *Readers) QueryContext(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	for range readTries {
		rows, err = translated{r.Dialect, r.current.Load()}.QueryContext(ctx, query, args...)
		if !IsLost(err) || ctx.Err() != nil {
			break
		}
	}
	return rows, err
}

// QueryRowContext is that of sql.DB.
func (r *Readers) QueryRowContext(ctx context.Context, query string, args ...any) (row *sql.Row) {
	for range readTries {
		row = translated{r.Dialect, r.current.Load()}.QueryRowContext(ctx, query, args...)
		if !IsLost(row.Err()) || ctx.Err() != nil {
			break
		}
	}
	return row
}

// Start begins a read transaction.
func (r *Readers) Start(ctx context.Context) (*Snapshot, error) {
	for try := 1; ; try++ {
		tx, err := r.current.Load().BeginTx(ctx, r.isolation)
		if err == nil {
			return &Snapshot{translated{r.Dialect, tx}, tx}, nil
		}
		if !IsLost(err) || try == readTries || ctx.Err() != nil {
			return nil, err
		}
	}
}

// ReadAll reads the rows of a query.
func ReadAll[T any](ctx context.Context, db Queryer, scan func(Scanner) (T, error), query string, args ...any) (all []T, err error) {
	err = Each(ctx, db, scan, func(one *T) error {
		all = append(all, *one)
		return nil
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Each yields the rows of a query, one at a time, and stops at the first error that yield returns.
func Each[T any](ctx context.Context, db Queryer, scan func(Scanner) (T, error), yield func(*T) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		one, err := scan(rows)
		if err == nil {
			err = yield(&one)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// Queryer is a database or a transaction on it.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Text scans a row of one string.
func Text(row Scanner) (s string, err error) {
	err = row.Scan(&s)
	return s, err
}
