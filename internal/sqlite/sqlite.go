// Package sqlite opens the gateway's SQLite files, with one connection, as files that only its user can read. It does not know their content.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"

	_ "github.com/mattn/go-sqlite3" // the "sqlite3" driver
)

// durable are the parameters of files whose changes are synced to the disk, and in which deleted data is overwritten.
var durable = url.Values{"_journal_mode": {"WAL"}, "_synchronous": {"FULL"}, "_busy_timeout": {"5000"}, "_txlock": {"immediate"}, "_secure_delete": {"on"}}

// Open opens a file for durable changes, and creates it if it does not exist. more are further parameters of the connection.
func Open(path string, more url.Values) (*sql.DB, error) {
	if err := Touch(path); err != nil {
		return nil, err
	}
	return Connect(path, with(durable, more))
}

// OpenLater is Open for a file that may not exist yet: until Touch has created it, every use of it fails, and nothing creates it.
func OpenLater(path string, more url.Values) (*sql.DB, error) {
	return Connect(path, with(with(durable, more), url.Values{"mode": {"rw"}}))
}

func with(a, b url.Values) url.Values {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// Touch creates a file that only its user can read, unless it exists.
func Touch(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// Connect returns one connection to a file: one writer, for which reads wait. The file is opened at its first use.
func Connect(path string, params url.Values) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: path, RawQuery: params.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// Step migrates the tables of a file from one version to the next.
type Step func(ctx context.Context, tx *sql.Tx) error

// Script returns a step that consists of SQL.
func Script(text string) Step {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, text)
		return err
	}
}

// Prepare migrates a file to the newest version: a new file has version 0, and the step at an index leads from that version to the next. A file of a
// newer version is refused. It is atomic.
func Prepare(ctx context.Context, db *sql.DB, steps ...Step) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	var version int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > len(steps) {
		return fmt.Errorf("it was written by a newer version of this program (%d)", version)
	}
	for _, step := range steps[version:] {
		if err := step(ctx, tx); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(steps))); err != nil {
		return err
	}
	return tx.Commit()
}
