package book

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/mattn/go-sqlite3" // the "sqlite3" driver

	"bardo.money/gateway/policy/ledger/lock"
	"bardo.money/gateway/policy/pay"
)

//go:embed schema.sql
var schema string

const schemaVersion = 6

// upgrades change a file of a version to the next version.
var upgrades = map[int]string{
	1: `
ALTER TABLE payment ADD COLUMN upto INTEGER NOT NULL DEFAULT 0;
ALTER TABLE payment ADD COLUMN facilitator TEXT NOT NULL DEFAULT '';
ALTER TABLE payment ADD COLUMN captured INTEGER NOT NULL DEFAULT 0 CHECK (captured >= 0 AND captured <= amount);
UPDATE payment SET captured = amount WHERE service = 'served';`,
	2: `
CREATE INDEX IF NOT EXISTS payment_open ON payment (holder) WHERE service = 'serving' OR service = 'served' AND booked = 0;`,
	3: `
ALTER TABLE payment ADD COLUMN look_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX payment_look ON payment (look_at) WHERE look_at > 0;`,
	4: `
ALTER TABLE payment ADD COLUMN debt INTEGER NOT NULL DEFAULT 0;`,
	5: `
ALTER TABLE payment ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;` + markKept,
}

// markKept marks the payments of earlier versions that are kept as credit, of those whose blocks are still checked: the gateway has signed no transaction for
// them. Payments that a facilitator settled before their requests, which then cost nothing, look the same.
const markKept = `
UPDATE payment SET kept = 1 WHERE service = 'served' AND booked = 1 AND charge = 0 AND NOT EXISTS (SELECT 1 FROM sent WHERE sent.payment = payment.id)
	AND (settlement = 'confirmed' OR settlement = 'settling' AND reason = '` + reorganised + `');`

// openFile opens a file, and creates it if it is missing.
func (b *Book) openFile(ctx context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	params := url.Values{"_journal_mode": {"WAL"}, "_synchronous": {"FULL"}, "_busy_timeout": {"5000"}, "_foreign_keys": {"on"}, "_txlock": {"immediate"}}
	if b.db, err = sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: path, RawQuery: params.Encode()}).String()); err != nil {
		return err
	}
	b.db.SetMaxOpenConns(1)
	b.queries = queries{on: b.db}
	if err := b.prepareFile(ctx); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := b.readFileMark(ctx); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if _, err := sweep(path); err != nil {
		return err
	}
	alive, err := lockAlive(path, b.holder)
	b.peers = &files{path: path, holder: b.holder, alive: alive, settler: lock.File{Path: path + ".settler"}}
	return err
}

func (b *Book) prepareFile(ctx context.Context) error {
	var synchronous, version int
	if err := b.row(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil || synchronous != 2 {
		return errors.Join(err, fmt.Errorf("synchronous is %d, expected 2: a payment must survive a power failure", synchronous))
	}
	if err := b.row(ctx, "PRAGMA user_version").Scan(&version); err != nil || version == schemaVersion {
		return err
	}
	return b.atomically(ctx, func(tx queries) error {
		if err := tx.row(ctx, "PRAGMA user_version").Scan(&version); err != nil { // another gateway may have upgraded it
			return err
		}
		if version > schemaVersion {
			return errNewer(version)
		}
		change := schema
		if version > 0 {
			change = ""
		}
		for v := max(version, 1); version > 0 && v < schemaVersion; v++ {
			change += upgrades[v]
		}
		_, err := tx.exec(ctx, fmt.Sprintf("%s;\nPRAGMA user_version = %d", change, schemaVersion))
		return err
	})
}

// readFileMark reads the number of the file's mark, and draws one if it has none.
func (b *Book) readFileMark(ctx context.Context) error {
	return b.atomically(ctx, func(tx queries) error {
		var id int32
		if err := tx.row(ctx, "PRAGMA application_id").Scan(&id); err != nil {
			return err
		}
		if id == 0 {
			id = int32(rand.N(math.MaxInt32-1)) + 1 //nolint:gosec // it is to differ from others, and is no secret
			if _, err := tx.exec(ctx, fmt.Sprintf("PRAGMA application_id = %d", id)); err != nil {
				return err
			}
		}
		b.mark = pay.NewMark(uint64(id)) //nolint:gosec // it is above zero
		return nil
	})
}

// errNewer is the error for a store of a later version.
func errNewer(version int) error {
	return fmt.Errorf("it was written by a newer version of this program (%d)", version)
}

// files coordinates the gateways of one machine: each locks a file of its own, which the system releases when the process ends.
type files struct {
	path, holder string
	alive        *lock.File
	settler      lock.File
}

func (*files) ensureLease(context.Context) error { return nil }

// running implements peers.
func (f *files) running(context.Context) (func(string) (bool, error), error) {
	return func(holder string) (bool, error) {
		taken, _, err := lock.IsTaken(aliveFile(f.path, holder))
		return taken, err
	}, nil
}

func (f *files) claim(context.Context) (bool, error) {
	if f.settler.Exists() {
		return true, nil
	}
	return f.settler.Try()
}

func (f *files) yield(context.Context) error { return f.settler.Release() }

func (*files) fence(context.Context, queries) error     { return nil } // the lock ends with the process
func (*files) serialize(context.Context, queries) error { return nil } // SQLite runs one writing transaction at a time

func (f *files) close() error {
	return errors.Join(f.settler.Release(), unlockAlive(f.alive))
}

const aliveSuffix = ".alive"

// aliveFile is the name of the file that a gateway locks while it runs.
func aliveFile(prefix, holder string) string { return prefix + "." + holder + aliveSuffix }

// lockAlive creates and locks a gateway's file.
func lockAlive(prefix, holder string) (*lock.File, error) {
	f := &lock.File{Path: aliveFile(prefix, holder)}
	for {
		if ok, err := f.Try(); !ok || err != nil {
			return nil, errors.Join(err, fmt.Errorf("%s is locked", f.Path))
		}
		if f.Exists() { // sweep may have removed it before it was locked
			return f, nil
		}
		if err := f.Release(); err != nil {
			return nil, err
		}
	}
}

// unlockAlive removes and unlocks a gateway's file.
func unlockAlive(alive *lock.File) error {
	if alive == nil {
		return nil
	}
	return errors.Join(os.Remove(alive.Path), alive.Release())
}

// sweep removes the files of gateways that no longer run, and returns their ids.
func sweep(prefix string) (dead []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(prefix))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), filepath.Base(prefix)+".")
		if !ok || !strings.HasSuffix(name, aliveSuffix) {
			continue
		}
		f := lock.File{Path: filepath.Join(filepath.Dir(prefix), e.Name())}
		if ok, err := f.Try(); !ok || err != nil {
			continue // it runs, or another gateway checks it
		}
		err := os.Remove(f.Path)
		if err := errors.Join(err, f.Release()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return dead, err
		}
		dead = append(dead, strings.TrimSuffix(name, aliveSuffix))
	}
	return dead, nil
}
