package session

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/internal/sqlite"
	"bardo.money/gateway/policy"
)

// The tables, by the schema version that added them.
var (
	//go:embed schema.sql
	schema string
	//go:embed schema2.sql
	schema2 string
	//go:embed schema3.sql
	schema3 string
	//go:embed schema4.sql
	schema4 string
)

// SQLite is a store in a file, which is created with the first session. Safe for concurrent use by one process.
type SQLite struct {
	path string
	db   *sql.DB
	seal seal.Sealer
	now  func() time.Time

	mu   sync.Mutex
	used bool // the file and its tables exist
}

var _ Store = (*SQLite)(nil)

// OpenSQLite opens the file, if it exists. keys encrypt the agents' data. now may be nil.
func OpenSQLite(ctx context.Context, path string, keys seal.Keys, now func() time.Time) (s *SQLite, err error) {
	if now == nil {
		now = time.Now
	}
	s = &SQLite{path: path, now: now}
	if s.seal, err = keys.Sealer("sessions"); err != nil {
		return nil, err
	}
	if s.db, err = sqlite.OpenLater(path, url.Values{"_foreign_keys": {"on"}}); err != nil {
		return nil, err
	}
	if _, err := s.use(ctx, false); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// use opens the file. Without create, ok is false if it does not exist: there are no sessions.
func (s *SQLite) use(ctx context.Context, create bool) (ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used {
		return true, nil
	}
	if _, err := os.Stat(s.path); !create && errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err := sqlite.Touch(s.path); err != nil {
		return false, err
	}
	if err := sqlite.Prepare(ctx, s.db, sqlite.Script(schema), sqlite.Script(schema2), s.migrateToV3, sqlite.Script(schema4)); err != nil {
		return false, fmt.Errorf("sessions: %s: %w", s.path, err)
	}
	s.used = true
	return true, nil
}

// migrateToV3 migrates to schema version 3: values are sealed, and there are documents.
func (s *SQLite) migrateToV3(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, schema3); err != nil {
		return err
	}
	for _, t := range []struct{ kind, read, write string }{
		{"checkpoint", `SELECT session, id, state FROM checkpoint`, `UPDATE checkpoint SET state = ? WHERE session = ? AND id = ?`},
		{"entry", `SELECT session, key, value FROM pad`, `UPDATE pad SET value = ? WHERE session = ? AND key = ?`},
	} {
		if err := s.sealAll(ctx, tx, t.kind, t.read, t.write); err != nil {
			return err
		}
	}
	return nil
}

// sealAll seals the unsealed values of a table.
func (s *SQLite) sealAll(ctx context.Context, tx *sql.Tx, kind, read, write string) error {
	type row struct {
		session, key string
		value        []byte
	}
	scan := func(rows *sql.Rows) (r row, err error) {
		err = rows.Scan(&r.session, &r.key, &r.value)
		return r, err
	}
	all, err := list(ctx, tx, scan, read)
	if err != nil {
		return err
	}
	for _, r := range all {
		if _, err := tx.ExecContext(ctx, write, s.seal.Seal(rowName(kind, r.session, r.key), r.value), r.session, r.key); err != nil {
			return err
		}
	}
	return nil
}

// Shut closes the file.
func (s *SQLite) Shut() error { return s.db.Close() }

// notFound converts the error of a query without a result to ErrUnknown.
func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrUnknown
	}
	return err
}

// Create implements Store. It first deletes sessions that ended long ago.
func (s *SQLite) Create(ctx context.Context, n *Session) error {
	if _, err := s.use(ctx, true); err != nil {
		return err
	}
	now := s.now()
	if err := s.prune(ctx, n.Account, now); err != nil {
		return err
	}
	var open, all int
	err := s.db.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE closed IS NULL AND expires > ?2) FROM session WHERE account = ?1`, n.Account, now.UnixMicro()).Scan(&all, &open)
	switch {
	case err != nil:
		return err
	case open >= maxSessions:
		return fmt.Errorf("%w: a key has at most %d sessions at a time", ErrFull, maxSessions)
	case all >= maxStored:
		return fmt.Errorf("%w: a key has at most %d sessions, with those that ended lately", ErrFull, maxStored)
	}
	lists, err := listsOf(n)
	if err != nil {
		return err
	}
	var parent, budget any
	if n.Parent != "" {
		parent = n.Parent
	}
	if n.Budget != nil {
		budget = int64(*n.Budget)
	}
	_, err = s.db.ExecContext(ctx, `INSERT INTO session (id, account, parent, depth, golem, models, subsystems, tools, budget, at, expires, secret) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		n.ID, n.Account, parent, n.depth, n.Golem, lists[0], lists[1], lists[2], budget, n.At.UnixMicro(), n.Expires.UnixMicro(), n.secret)
	return err
}

// listsOf returns the stored form of a session's lists: models, subsystems and tools.
func listsOf(n *Session) (lists [3]string, err error) {
	for i, list := range [...][]string{append([]string{}, n.Models...), append([]string{}, n.Subsystems...), n.Tools} {
		b, err := json.Marshal(list)
		if err != nil {
			return lists, err
		}
		lists[i] = string(b)
	}
	return lists, nil
}

// ended is the time when a session has ended, or will.
const ended = `min(coalesce(closed, expires), expires)`

// prune deletes sessions that ended long ago, and the oldest of an account that has many. A session is deleted after those below it. The spending of a
// deleted sub-session is added to its parent's.
func (s *SQLite) prune(ctx context.Context, account policy.Account, now time.Time) error {
	const late = `SELECT id FROM session WHERE NOT EXISTS (SELECT 1 FROM session c WHERE c.parent = session.id) AND (` + ended + ` < ?1 OR id IN (
	SELECT id FROM session WHERE account = ?2 AND ` + ended + ` < ?3 ORDER BY ` + ended + ` DESC LIMIT -1 OFFSET ?4))`
	args := []any{now.Add(-retention).UnixMicro(), account, now.Add(-endedRecently).UnixMicro(), maxEnded}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after Commit
	for _, query := range [...]string{
		`INSERT INTO spent (session, request, micro) SELECT parent, id, used FROM session WHERE parent IS NOT NULL AND id IN (` + late + `) ON CONFLICT DO NOTHING`,
		`DELETE FROM session WHERE id IN (` + late + `)`,
	} {
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

const selectSession = `SELECT id, account, coalesce(parent, ''), depth, golem, models, subsystems, tools, budget, at, expires, closed IS NOT NULL, secret, used,
	(SELECT coalesce(sum(micro), 0) FROM kept WHERE session = session.id AND until > %d) FROM session `

// selectOf returns the start of a query for sessions.
func (s *SQLite) selectOf() string { return fmt.Sprintf(selectSession, s.now().UnixMicro()) }

func scanSession(row interface{ Scan(into ...any) error }) (n Session, err error) {
	var models, subsystems, tools string
	var budget sql.NullInt64
	var at, expires int64
	if err := row.Scan(&n.ID, &n.Account, &n.Parent, &n.depth, &n.Golem, &models, &subsystems, &tools, &budget, &at, &expires, &n.Closed, &n.secret, &n.used, &n.kept); err != nil {
		return n, err
	}
	if budget.Valid {
		n.Budget = new(policy.Micro(budget.Int64))
	}
	n.At, n.Expires = time.UnixMicro(at), time.UnixMicro(expires)
	return n, errors.Join(json.Unmarshal([]byte(models), &n.Models), json.Unmarshal([]byte(subsystems), &n.Subsystems), json.Unmarshal([]byte(tools), &n.Tools))
}

// Find implements Store.
func (s *SQLite) Find(ctx context.Context, id string) (Session, error) {
	ok, err := s.use(ctx, false)
	if err != nil {
		return Session{}, err
	}
	if !ok {
		return Session{}, ErrUnknown
	}
	n, err := scanSession(s.db.QueryRowContext(ctx, s.selectOf()+`WHERE id = ?`, id))
	return n, notFound(err)
}

// Children implements Store.
func (s *SQLite) Children(ctx context.Context, id string) ([]Session, error) {
	return list(ctx, s.db, func(rows *sql.Rows) (Session, error) { return scanSession(rows) }, s.selectOf()+`WHERE parent = ? ORDER BY at`, id)
}

// Tree implements Store.
func (s *SQLite) Tree(ctx context.Context, id string) ([]Session, error) {
	return list(ctx, s.db, func(rows *sql.Rows) (Session, error) { return scanSession(rows) }, `WITH RECURSIVE below (id) AS (SELECT ? UNION SELECT s.id FROM session s JOIN below b ON s.parent = b.id)
`+s.selectOf()+`WHERE id IN (SELECT id FROM below) ORDER BY depth`, id)
}

// querier is the file, or a transaction in it.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func list[T any](ctx context.Context, q querier, scan func(*sql.Rows) (T, error), query string, args ...any) (all []T, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// Close implements Store.
func (s *SQLite) Close(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, `WITH RECURSIVE below (id) AS (SELECT ?2 UNION SELECT s.id FROM session s JOIN below b ON s.parent = b.id)
UPDATE session SET closed = ?1 WHERE closed IS NULL AND id IN (SELECT id FROM below)`, s.now().UnixMicro(), id)
	return err
}

// Spend implements Store.
func (s *SQLite) Spend(ctx context.Context, id, request string, amount policy.Micro) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO spent (session, request, micro) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, id, request, int64(amount))
	return err
}

// StoreHold implements Store.
func (s *SQLite) StoreHold(ctx context.Context, id, request string, amount policy.Micro, until time.Time) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO kept (request, session, micro, until) VALUES (?, ?, ?, ?)`, request, id, int64(amount), until.UnixMicro())
	return err
}

// Free implements Store.
func (s *SQLite) Free(ctx context.Context, request string) error {
	if ok, err := s.use(ctx, false); !ok { // of a request without a session
		return err
	}
	_, err := s.db.ExecContext(ctx, `DELETE FROM kept WHERE request = ? OR until <= ?`, request, s.now().UnixMicro())
	return err
}

// roomFor returns an error if the session's account may not store n more bytes.
func roomFor(ctx context.Context, q querier, session string, n int) error {
	var bytes int64
	err := q.QueryRowContext(ctx, `SELECT coalesce(sum(bytes), 0) FROM session WHERE account = (SELECT account FROM session WHERE id = ?)`, session).Scan(&bytes)
	if err == nil && bytes+int64(n) > maxBytes {
		err = fmt.Errorf("%w: the sessions of a key store at most %d MiB together, until a week after they ended", ErrFull, maxBytes>>20)
	}
	return err
}

// AddCheckpoint implements Store.
func (s *SQLite) AddCheckpoint(ctx context.Context, session string, c *Checkpoint) error {
	if err := roomFor(ctx, s.db, session, len(c.State)); err != nil {
		return err
	}
	r, err := s.db.ExecContext(ctx, `INSERT INTO checkpoint (session, id, at, state, bytes) SELECT ?1, ?2, ?3, ?4, ?6 WHERE (SELECT count(*) FROM checkpoint WHERE session = ?1) < ?5`,
		session, c.ID, c.At.UnixMicro(), s.seal.Seal(rowName("checkpoint", session, c.ID), c.State), maxCheckpoints, len(c.State))
	return room(r, err, "a session has at most %d checkpoints", maxCheckpoints)
}

// room returns the error of an insertion that a limit prevented.
func room(r sql.Result, err error, format string, limit int) error {
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return fmt.Errorf("%w: "+format, ErrFull, limit)
}

// Checkpoints implements Store.
func (s *SQLite) Checkpoints(ctx context.Context, session string) ([]Checkpoint, error) {
	scan := func(rows *sql.Rows) (c Checkpoint, err error) {
		var at int64
		err = rows.Scan(&c.ID, &at, &c.Bytes)
		c.At = time.UnixMicro(at)
		return c, err
	}
	return list(ctx, s.db, scan, `SELECT id, at, bytes FROM checkpoint WHERE session = ? ORDER BY at DESC, id DESC`, session)
}

// Checkpoint implements Store.
func (s *SQLite) Checkpoint(ctx context.Context, session, id string) (c Checkpoint, err error) {
	var at int64
	err = s.db.QueryRowContext(ctx, `SELECT id, at, state FROM checkpoint WHERE session = ? AND id = ?`, session, id).Scan(&c.ID, &at, &c.State)
	if err != nil {
		return Checkpoint{}, notFound(err)
	}
	c.State, err = s.seal.Open(rowName("checkpoint", session, c.ID), c.State)
	c.At, c.Bytes = time.UnixMicro(at), len(c.State)
	return c, err
}

// Put implements Store.
func (s *SQLite) Put(ctx context.Context, session, key string, expected int64, value []byte) (version int64, err error) {
	if err := roomFor(ctx, s.db, session, len(value)); err != nil {
		return 0, err
	}
	bytes := len(value)
	value = s.seal.Seal(rowName("entry", session, key), value)
	if expected > 0 {
		err = s.db.QueryRowContext(ctx, `UPDATE pad SET version = version + 1, value = ?, bytes = ? WHERE session = ? AND key = ? AND version = ? RETURNING version`, value, bytes, session, key, expected).Scan(&version)
		return version, conflict(err)
	}
	clash := `DO UPDATE SET version = version + 1, value = ?3, bytes = ?5`
	if expected == 0 {
		clash = `DO NOTHING`
	}
	err = s.db.QueryRowContext(ctx, `INSERT INTO pad (session, key, version, value, bytes) SELECT ?1, ?2, 1, ?3, ?5
WHERE (SELECT count(*) FROM pad WHERE session = ?1) < ?4 OR EXISTS (SELECT 1 FROM pad WHERE session = ?1 AND key = ?2) ON CONFLICT (session, key) `+clash+` RETURNING version`,
		session, key, value, maxEntries, bytes).Scan(&version)
	if !errors.Is(err, sql.ErrNoRows) {
		return version, err
	}
	if _, err := s.Entry(ctx, session, key); err == nil {
		return 0, ErrConflict
	}
	return 0, fmt.Errorf("%w: a scratchpad has at most %d entries", ErrFull, maxEntries)
}

// conflict returns the error of a change that found another version, or no entry.
func conflict(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrConflict
	}
	return err
}

// Entry implements Store.
func (s *SQLite) Entry(ctx context.Context, session, key string) (e Entry, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT key, version, value FROM pad WHERE session = ? AND key = ?`, session, key).Scan(&e.Key, &e.Version, &e.Value)
	if err != nil {
		return Entry{}, notFound(err)
	}
	e.Value, err = s.seal.Open(rowName("entry", session, key), e.Value)
	e.Bytes = len(e.Value)
	return e, err
}

// Entries implements Store.
func (s *SQLite) Entries(ctx context.Context, session string) ([]Entry, error) {
	scan := func(rows *sql.Rows) (e Entry, err error) {
		err = rows.Scan(&e.Key, &e.Version, &e.Bytes)
		return e, err
	}
	return list(ctx, s.db, scan, `SELECT key, version, bytes FROM pad WHERE session = ? ORDER BY key`, session)
}

// Remove implements Store.
func (s *SQLite) Remove(ctx context.Context, session, key string, expected int64) error {
	var version int64
	query, args := `DELETE FROM pad WHERE session = ? AND key = ?`, []any{session, key}
	if expected >= 0 {
		query, args = query+` AND version = ?`, append(args, expected)
	}
	err := s.db.QueryRowContext(ctx, strings.TrimSpace(query)+` RETURNING version`, args...).Scan(&version)
	if expected < 0 {
		return notFound(err)
	}
	return conflict(err)
}
