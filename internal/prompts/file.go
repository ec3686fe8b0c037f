package prompts

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/internal/sqlite"
)

const tables = `CREATE TABLE prompt (seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, entry BLOB NOT NULL) STRICT; CREATE INDEX prompt_at ON prompt (at);`

// purpose separates the keys of prompts from others of the same secret.
const purpose = "prompt log"

// FileOptions configure where entries are stored, and for how long.
type FileOptions struct {
	Path, Secret string        // Secret encrypts all entries; required
	MaxAge       time.Duration // older entries are deleted
	MaxBytes     int64         // of all entries; the oldest are deleted beyond that
}

// File stores entries, each of them encrypted. One process writes, others may read.
type File struct {
	o    FileOptions
	db   *sql.DB
	seal seal.Sealer
	size int64 // of all entries
}

var _ Sink = (*File)(nil)

// OpenFile opens a file, and creates it if it does not exist.
func OpenFile(ctx context.Context, o FileOptions) (f *File, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("prompt log %s: %w", o.Path, err)
		}
	}()
	if o.Secret == "" {
		return nil, errors.New("there is no key to encrypt it with")
	}
	f = &File{o: o}
	if f.seal, err = seal.New(purpose, o.Secret); err != nil {
		return nil, err
	}
	if f.db, err = sqlite.Open(o.Path, nil); err != nil {
		return nil, err
	}
	err = sqlite.Prepare(ctx, f.db, sqlite.Script(tables))
	if err == nil {
		err = f.measure(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, f.db.Close())
	}
	return f, nil
}

// Close implements Sink.
func (f *File) Close() error { return f.db.Close() }

// measure computes the size of all entries.
func (f *File) measure(ctx context.Context) error {
	return f.db.QueryRowContext(ctx, `SELECT coalesce(sum(length(entry)), 0) FROM prompt`).Scan(&f.size)
}

// row is the name that an entry is encrypted for, so that its time cannot be changed.
func row(at int64) string { return "prompt " + strconv.FormatInt(at, 10) }

// Write implements Sink.
func (f *File) Write(ctx context.Context, batch []*Entry) (err error) {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	size := f.size
	for _, e := range batch {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		at := e.At.UnixMilli()
		sealed := f.seal.Seal(row(at), text)
		if _, err := tx.ExecContext(ctx, `INSERT INTO prompt (at, entry) VALUES (?, ?)`, at, sealed); err != nil {
			return err
		}
		size += int64(len(sealed))
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	f.size = size
	return f.shrink(ctx)
}

// shrink deletes the oldest entries until all fit, and some more, so that not every new entry deletes another.
func (f *File) shrink(ctx context.Context) error {
	if f.size <= f.o.MaxBytes {
		return nil
	}
	const last = `SELECT max(seq) FROM (SELECT seq, sum(length(entry)) OVER (ORDER BY seq DESC) AS newer FROM prompt) WHERE newer > ?`
	if _, err := f.db.ExecContext(ctx, `DELETE FROM prompt WHERE seq <= (`+last+`)`, f.o.MaxBytes-f.o.MaxBytes/16); err != nil {
		return err
	}
	return f.measure(ctx)
}

// Tidy implements Sink.
func (f *File) Tidy(ctx context.Context, now time.Time) error {
	if _, err := f.db.ExecContext(ctx, `DELETE FROM prompt WHERE at < ?`, now.Add(-f.o.MaxAge).UnixMilli()); err != nil {
		return err
	}
	if err := f.measure(ctx); err != nil {
		return err
	}
	return f.shrink(ctx)
}

// Read calls do with the entries of a file since a time, oldest first. An entry that was encrypted with another secret, or changed, is an error.
func Read(ctx context.Context, path, secret string, since time.Time, do func(*Entry) error) (err error) {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	s, err := seal.New(purpose, secret)
	if err != nil {
		return err
	}
	db, err := sqlite.OpenLater(path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, `SELECT seq, at, entry FROM prompt WHERE at >= ? ORDER BY seq`, since.UnixMilli())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var seq, at int64
		var sealed []byte
		if err := rows.Scan(&seq, &at, &sealed); err != nil {
			return err
		}
		e, err := open(s, at, sealed)
		if err != nil {
			return fmt.Errorf("entry %d of %s: %w", seq, path, err)
		}
		if err := do(e); err != nil {
			return err
		}
	}
	return rows.Err()
}

func open(s seal.Sealer, at int64, sealed []byte) (*Entry, error) {
	text, err := s.OpenSealed(row(at), sealed)
	if err != nil {
		return nil, err
	}
	e := new(Entry)
	return e, json.Unmarshal(text, e)
}
