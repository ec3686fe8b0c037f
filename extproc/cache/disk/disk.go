// Package disk keeps stored answers in an encrypted file, so that they outlive a restart: those of the exact cache, and the questions by which the semantic
// cache finds them. It writes asynchronously, and drops what its queue has no room for. It knows neither requests nor who may store what.
package disk

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/gob"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/internal/sqlite"
	"bardo.money/gateway/policy"
)

// Bounds of the write queue, and the delay in which writes are collected into a batch.
const (
	maxPending      = 4096
	maxPendingBytes = 16 << 20
	batchDelay      = 100 * time.Millisecond
)

// application marks a file as one of this package, in SQLite's header.
const application = 0x62634131

// id is a row's name, a keyed hash: without the secret, it does not reveal the account.
type id [16]byte

// Options of a file.
type Options struct {
	Path   string
	Secret []byte // of any length; entries are encrypted with a key that is derived from it
	Log    *slog.Logger
	Lost   func(entries int) // called with the number of entries that were not written; may be nil
}

// File is a file of stored answers. Added and Removed only queue writes: they do not block. Safe for concurrent use.
type File struct {
	o    Options
	db   *sql.DB
	seal seal.Sealer
	mac  []byte

	questions *semantic.Index
	mu        sync.Mutex
	pending   map[id]change
	bytes     int64
	written   map[id]struct{} // what the file has, or will have once the queue is written
	wake      chan struct{}   // signals run that something is pending
	closing   chan struct{}
	done      chan struct{}
	closed    bool
}

// change is a pending write of an entry; a nil entry deletes it.
type change struct {
	tenant policy.Account
	entry  *cache.Entry
}

// row is an entry in the file.
type row struct {
	Tenant policy.Account
	Entry  []byte
	Place  []byte // of its question; empty: it answers its own question alone
	Text   string
}

// Open opens a file, or creates it. A file of another program, or one that is corrupt, is moved aside; one that was written with another secret, or by another
// version, is emptied. Both are logged. It fails if the file cannot be created, or another program has it open.
func Open(ctx context.Context, o Options) (*File, error) {
	f := &File{o: o, pending: map[id]change{}, written: map[id]struct{}{}, wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
	if err := f.keys(); err != nil {
		return nil, err
	}
	err := f.open(ctx)
	if errors.Is(err, errForeign) {
		o.Log.Warn("the file of stored answers cannot be used, and is moved aside", "file", o.Path, "error", err)
		if err = moveAside(o.Path); err == nil {
			err = f.open(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("stored answers: %s: %w", o.Path, err)
	}
	return f, nil
}

// keys derives the keys.
func (f *File) keys() error {
	derive := func(purpose string) []byte {
		m := hmac.New(sha256.New, f.o.Secret)
		m.Write([]byte("stored answers: " + purpose))
		return m.Sum(nil)
	}
	f.mac = derive("names")
	var err error
	f.seal, err = seal.New("stored answers", string(derive("content")))
	return err
}

// errForeign is the error of a file that another program has written, or that is corrupt.
var errForeign = errors.New("it is no file of stored answers, or broken")

// moveAside renames a file and its companions, and replaces one that was moved aside before.
func moveAside(path string) error {
	for _, ending := range []string{"-wal", "-shm"} {
		if err := os.Rename(path+ending, path+".discarded"+ending); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.Rename(path, path+".discarded")
}

func (f *File) open(ctx context.Context) error {
	if err := sqlite.Touch(f.o.Path); err != nil {
		return err
	}
	if err := f.inspect(ctx); err != nil {
		return err
	}
	params := url.Values{"_journal_mode": {"WAL"}, "_synchronous": {"NORMAL"}, "_busy_timeout": {"1000"}, "_locking_mode": {"EXCLUSIVE"}, "_txlock": {"immediate"}, "_secure_delete": {"on"}}
	db, err := sqlite.Connect(f.o.Path, params)
	if err != nil {
		return err
	}
	if err := f.prepare(ctx, db); err != nil {
		return errors.Join(err, db.Close())
	}
	f.db = db
	return nil
}

// inspect checks, without changing the file, that it is empty or of this package, and intact.
func (f *File) inspect(ctx context.Context) (err error) {
	db, err := sqlite.Connect(f.o.Path, url.Values{"mode": {"ro"}, "_busy_timeout": {"1000"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	app, tables, check := 0, 0, ""
	if err := db.QueryRowContext(ctx, "SELECT * FROM pragma_application_id, (SELECT count(*) FROM sqlite_master), pragma_quick_check LIMIT 1").Scan(&app, &tables, &check); err != nil {
		return foreign(err)
	}
	if app != application && (app != 0 || tables != 0) || check != "ok" {
		return errForeign
	}
	return nil
}

// prepare creates the file's table, or empties it if it cannot be read.
func (f *File) prepare(ctx context.Context, db *sql.DB) error {
	var version, tables int
	if err := db.QueryRowContext(ctx, "SELECT * FROM pragma_user_version, (SELECT count(*) FROM sqlite_master)").Scan(&version, &tables); err != nil {
		return foreign(err)
	}
	if tables > 0 {
		var check []byte
		if err := db.QueryRowContext(ctx, "SELECT body FROM answers WHERE id = ?", f.checkID()).Scan(&check); err == nil && version == cache.Version {
			if _, err := f.seal.OpenSealed(string(f.checkID()), check); err == nil {
				return nil
			}
		}
		f.o.Log.Warn("stored answers are discarded: they were written by another version of this program, or with another key", "file", f.o.Path)
	}
	for _, do := range []string{
		"DROP TABLE IF EXISTS answers",
		"CREATE TABLE answers (id BLOB PRIMARY KEY, expires INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID",
		fmt.Sprintf("PRAGMA application_id = %d", application), fmt.Sprintf("PRAGMA user_version = %d", cache.Version),
	} {
		if _, err := db.ExecContext(ctx, do); err != nil {
			return foreign(err)
		}
	}
	_, err := db.ExecContext(ctx, "INSERT INTO answers VALUES (?, 0, ?)", f.checkID(), f.seal.Seal(string(f.checkID()), nil))
	return err
}

// foreign makes the error of a corrupt file errForeign; others, such as that of a locked file, stay as they are.
func foreign(err error) error {
	if isBroken(err) {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	return err
}

// checkID names the row that shows whether the secret is the same.
func (f *File) checkID() []byte {
	n := f.name("", cache.Key{})
	return n[:]
}

func (f *File) name(tenant policy.Account, k cache.Key) (out id) {
	m := hmac.New(sha256.New, f.mac)
	m.Write([]byte(tenant))
	m.Write(k[:])
	copy(out[:], m.Sum(nil))
	return out
}

// Load adds the file's entries to a store and its index, if they are fresh enough and there is room. Those that cannot be used are deleted. It is called once,
// before Added and Removed, and starts the writer.
func (f *File) Load(ctx context.Context, store *cache.Store, questions *semantic.Index) (entries int, err error) {
	f.questions = questions
	defer guard.Go(f.run)
	rows, err := f.db.QueryContext(ctx, "SELECT id, body FROM answers WHERE id <> ? ORDER BY expires", f.checkID())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	broken := 0
	for rows.Next() {
		var name, body []byte
		if err := rows.Scan(&name, &body); err != nil {
			return entries, err
		}
		n := id(name)
		f.written[n] = struct{}{}
		switch ok, err := f.restore(n, body, store); {
		case ok:
			entries++
			continue
		case err != nil:
			broken++
		}
		f.enqueue(n, change{})
	}
	if broken > 0 {
		f.o.Log.Warn("stored answers are broken, and discarded", "file", f.o.Path, "entries", broken)
	}
	return entries, rows.Err()
}

// restore adds one row to the store. It returns false for one that is not used, with an error if it cannot be read.
func (f *File) restore(n id, body []byte, store *cache.Store) (bool, error) {
	plain, err := f.seal.OpenSealed(string(n[:]), body)
	if err != nil {
		return false, err
	}
	var r row
	if err := gob.NewDecoder(bytes.NewReader(plain)).Decode(&r); err != nil {
		return false, err
	}
	e, err := cache.Decode(r.Entry)
	if err != nil || !store.Restore(r.Tenant, e) {
		return false, err
	}
	if len(r.Place) == len(semantic.Place{}) {
		f.questions.Add(r.Tenant, semantic.Place(r.Place), &semantic.Row{Key: e.Key, Text: r.Text, Expires: e.Expires})
	}
	return true, nil
}

// Added queues an entry that was stored. A private one is not written.
func (f *File) Added(tenant policy.Account, e *cache.Entry) {
	if !e.Private {
		f.enqueue(f.name(tenant, e.Key), change{tenant, e})
	}
}

// Removed queues the deletion of an entry.
func (f *File) Removed(tenant policy.Account, k cache.Key) { f.enqueue(f.name(tenant, k), change{}) }

// enqueue queues a change. If the queue is full, a new entry is dropped. Deletions of entries that the file does not have are ignored.
func (f *File) enqueue(n id, c change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, waits := f.pending[n]
	if waits && before.entry != nil {
		f.bytes -= before.entry.Size()
		delete(f.pending, n)
	}
	_, has := f.written[n]
	switch {
	case f.closed, c.entry == nil && !has:
		return
	case c.entry == nil:
		delete(f.written, n)
	case len(f.pending) >= maxPending || f.bytes+c.entry.Size() > maxPendingBytes:
		f.lost(1)
		if !has {
			return
		}
		delete(f.written, n)
		c = change{} // the older entry in the file is out of date
	default:
		f.bytes += c.entry.Size()
		f.written[n] = struct{}{}
	}
	f.pending[n] = c
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *File) lost(entries int) {
	if f.o.Lost != nil && entries > 0 {
		f.o.Lost(entries)
	}
}

// run writes pending changes until the file is closed.
func (f *File) run() {
	defer close(f.done)
	for {
		select {
		case <-f.wake:
		case <-f.closing:
			f.write()
			return
		}
		select {
		case <-time.After(batchDelay):
		case <-f.closing:
		}
		f.write()
	}
}

// write writes the pending changes.
func (f *File) write() {
	f.mu.Lock()
	batch := f.pending
	f.pending, f.bytes = map[id]change{}, 0
	f.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	if err := f.commit(batch); err != nil {
		f.o.Log.Error("stored answers are not written", "file", f.o.Path, "entries", len(batch), "error", err)
		f.lost(len(batch))
	}
}

func (f *File) commit(batch map[id]change) error {
	ctx := context.Background()
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
	for n, c := range batch {
		if c.entry == nil {
			_, err = tx.ExecContext(ctx, "DELETE FROM answers WHERE id = ?", n[:])
		} else {
			err = f.put(ctx, tx, n, &c)
		}
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (f *File) put(ctx context.Context, tx *sql.Tx, n id, c *change) error {
	r := row{Tenant: c.tenant}
	var err error
	if r.Entry, err = c.entry.Encode(); err != nil {
		return err
	}
	if p, q, ok := f.questions.Question(c.tenant, c.entry.Key); ok {
		r.Place, r.Text = p[:], q.Text
	}
	var plain bytes.Buffer
	if err := gob.NewEncoder(&plain).Encode(&r); err != nil {
		return err
	}
	body := f.seal.Seal(string(n[:]), plain.Bytes())
	_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", n[:], c.entry.Expires.Unix(), body)
	return err
}

// Close writes the pending changes, and closes the file. After Load it waits for the writer, at most until ctx is done.
func (f *File) Close(ctx context.Context) error {
	f.mu.Lock()
	wasClosed := f.closed
	f.closed = true
	f.mu.Unlock()
	if wasClosed {
		return nil
	}
	close(f.closing)
	if f.questions != nil {
		select {
		case <-f.done:
		case <-ctx.Done():
			return ctx.Err() // the writer still uses the file; the process ends
		}
	}
	return f.db.Close()
}
