package identity

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"time"

	"bardo.money/gateway/internal/sqlite"
	"bardo.money/gateway/policy"
)

//go:embed schema.sql
var schema string

// Store keeps links in a SQLite file, which the gateways of one machine may share. Safe for concurrent use.
type Store struct{ db *sql.DB }

// Open opens a file, and creates it if there is none.
func Open(ctx context.Context, path string) (*Store, error) {
	db, err := sqlite.Open(path, url.Values{})
	if err != nil {
		return nil, fmt.Errorf("identities: %s: %w", path, err)
	}
	if err := sqlite.Prepare(ctx, db, sqlite.Script(schema)); err != nil {
		return nil, errors.Join(fmt.Errorf("identities: %s: %w", path, err), db.Close())
	}
	return &Store{db}, nil
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

const selectLinks = `SELECT subject, account, holder, at, expires FROM link`

func scanLink(row interface{ Scan(into ...any) error }) (l Link, err error) {
	var at, expires int64
	err = row.Scan(&l.Subject, &l.Account, &l.Holder, &at, &expires)
	l.At = time.UnixMicro(at)
	if expires != 0 {
		l.Expires = time.UnixMicro(expires)
	}
	return l, err
}

// Find reads a subject's link; ok is false if there is none.
func (s *Store) Find(ctx context.Context, subject Subject) (l Link, ok bool, err error) {
	l, err = scanLink(s.db.QueryRowContext(ctx, selectLinks+` WHERE subject = ?`, subject))
	if errors.Is(err, sql.ErrNoRows) {
		return Link{}, false, nil
	}
	return l, err == nil, err
}

// Links returns the links of an account, by subject.
func (s *Store) Links(ctx context.Context, a policy.Account) ([]Link, error) {
	return s.list(ctx, selectLinks+` WHERE account = ? ORDER BY subject`, a)
}

func (s *Store) list(ctx context.Context, query string, args ...any) (all []Link, err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		l, err := scanLink(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, rows.Err()
}

// all returns the links whose subjects begin with a prefix, at most limit.
func (s *Store) all(ctx context.Context, prefix Subject, limit int) ([]Link, error) {
	return s.list(ctx, selectLinks+` WHERE subject >= ? AND subject < ? ORDER BY subject LIMIT ?`, prefix, after(prefix), limit)
}

// after returns the first string that sorts after all strings with a prefix, which ends in ":".
func after(prefix Subject) Subject { return prefix[:len(prefix)-1] + ";" }

// linkWrite is a link to be stored.
type linkWrite struct {
	link  Link
	nonce []byte // recorded as used with it; empty for none
	until time.Time
	sole  Subject // the account's other links with this prefix are deleted; "" for none
	now   time.Time
}

// put stores a link and records its nonce, both or neither.
func (s *Store) put(ctx context.Context, p *linkWrite) (err error) {
	l := &p.link
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	if len(p.nonce) > 0 {
		if err := spend(ctx, tx, p.nonce, p.until, p.now); err != nil {
			return err
		}
	}
	if p.sole != "" {
		if _, err := tx.ExecContext(ctx, `DELETE FROM link WHERE account = ? AND subject >= ? AND subject < ?`, l.Account, p.sole, after(p.sole)); err != nil {
			return err
		}
	}
	var others int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM link WHERE account = ? AND subject <> ?`, l.Account, l.Subject).Scan(&others); err != nil {
		return err
	}
	if others >= MaxLinks {
		return ErrFull
	}
	var expires int64
	if !l.Expires.IsZero() {
		expires = l.Expires.UnixMicro()
	}
	if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO link (subject, account, holder, at, expires) VALUES (?, ?, ?, ?, ?)`,
		l.Subject, l.Account, l.Holder, l.At.UnixMicro(), expires); err != nil {
		return err
	}
	return tx.Commit()
}

// Spend records a nonce as used until a time. The error is ErrUsed or the store's.
func (s *Store) Spend(ctx context.Context, nonce []byte, until, now time.Time) (err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := spend(ctx, tx, nonce, until, now); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// spend records a nonce as used. The error is ErrUsed or the store's.
func spend(ctx context.Context, tx *sql.Tx, nonce []byte, until, now time.Time) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM used WHERE until < ?`, now.UnixMicro()); err != nil {
		return err
	}
	done, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO used (nonce, until) VALUES (?, ?)`, nonce, until.UnixMicro())
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrUsed)
	}
	return nil
}

func (s *Store) remove(ctx context.Context, a policy.Account, subject Subject) error {
	done, err := s.db.ExecContext(ctx, `DELETE FROM link WHERE account = ? AND subject = ?`, a, subject)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrUnknown)
	}
	return nil
}
