// Package book stores payments and their states in a SQLite file beside the ledger, which the gateways of one machine share. It decides who may use a
// payment: one request at a time, and one that was served for ever. It knows neither the chain nor the ledger.
//
// A payment has two states. It is serving while a request is served for it, then served, or released if the request cost nothing: then it may be used again.
// Its settlement is none, settling once a transaction is signed, confirmed when it is in a block, final when that block is deep, or failed when the
// authorization can never be used any more.
package book

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "github.com/mattn/go-sqlite3" // the "sqlite3" driver
)

//go:embed schema.sql
var schema string

const schemaVersion = 2

// upgrade adds to a file of version 1 what scheme upto needs.
const upgrade = `
ALTER TABLE payment ADD COLUMN upto INTEGER NOT NULL DEFAULT 0;
ALTER TABLE payment ADD COLUMN facilitator TEXT NOT NULL DEFAULT '';
ALTER TABLE payment ADD COLUMN captured INTEGER NOT NULL DEFAULT 0 CHECK (captured >= 0 AND captured <= amount);
UPDATE payment SET captured = amount WHERE service = 'served'`

// Book is an open file of payments. Safe for concurrent use.
type Book struct {
	db     *sql.DB
	path   string
	holder string
	alive  *os.File // locked while this gateway runs
	now    func() time.Time
}

// Open opens the file, creates it if there is none, and takes part in it as a gateway of its own.
func Open(ctx context.Context, path string, now func() time.Time) (*Book, error) {
	b := &Book{path: path, holder: strings.ToLower(rand.Text()[:16]), now: now}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("payments: %s: %w", path, err), b.Close())
	}
	return b, nil
}

func (b *Book) open(ctx context.Context) (err error) {
	f, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if b.path, err = filepath.Abs(b.path); err != nil {
		return err
	}
	params := url.Values{"_journal_mode": {"WAL"}, "_synchronous": {"FULL"}, "_busy_timeout": {"5000"}, "_foreign_keys": {"on"}, "_txlock": {"immediate"}}
	if b.db, err = sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: b.path, RawQuery: params.Encode()}).String()); err != nil {
		return err
	}
	b.db.SetMaxOpenConns(1)
	if err := b.prepare(ctx); err != nil {
		return err
	}
	b.alive, err = lock(b.aliveFile(b.holder))
	return err
}

func (b *Book) prepare(ctx context.Context) error {
	var synchronous, version int
	if err := b.db.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil || synchronous != 2 {
		return errors.Join(err, fmt.Errorf("synchronous is %d, expected 2: a payment must survive a power failure", synchronous))
	}
	if err := b.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil || version == schemaVersion {
		return err
	}
	if version > schemaVersion {
		return fmt.Errorf("it was written by a newer version of this program (%d)", version)
	}
	return b.migrate(ctx)
}

func (b *Book) migrate(ctx context.Context) error {
	return b.atomically(ctx, func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil || version == schemaVersion {
			return err // another gateway did it
		}
		change := schema
		if version == 1 {
			change = upgrade
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("%s;\nPRAGMA user_version = %d", change, schemaVersion))
		return err
	})
}

// Close ends this gateway's part in the file.
func (b *Book) Close() error {
	var errs []error
	if b.db != nil {
		errs = append(errs, b.db.Close())
	}
	if b.alive != nil {
		errs = append(errs, os.Remove(b.alive.Name()), b.alive.Close())
	}
	return errors.Join(errs...)
}

// atomically runs a transaction. It has begun to write when do is called.
func (b *Book) atomically(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// aliveFile is locked while a gateway runs.
func (b *Book) aliveFile(holder string) string { return b.path + "." + holder + ".alive" }

// LockSettler makes this gateway the one that settles, unless another is; ok tells. The lock ends with release or the process.
func (b *Book) LockSettler() (release func() error, ok bool) {
	f, err := lock(b.path + ".settler")
	if err != nil {
		return nil, false
	}
	return f.Close, true
}

var errLocked = errors.New("another process has the lock")

// lock takes an exclusive lock on a file. The system releases it when the process ends.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errLocked, f.Close())
	}
	return f, nil
}

// runs reports whether a gateway runs.
func (b *Book) runs(holder string) bool {
	if holder == b.holder {
		return true
	}
	f, err := os.Open(b.aliveFile(holder))
	if err != nil {
		return false
	}
	taken := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
	_ = f.Close() // it was only read
	return taken
}
