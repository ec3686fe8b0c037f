// Package deferred stores requests that are answered later, and has them answered: in a batch of their provider if that is cheaper, else by an
// ordinary call while the gateway is idle, at the latest shortly before their deadline. It knows the states of requests and batches, and how they
// survive a crash; it does not know formats, prices, routes or how a call is made: a Runner does.
//
// Every step is stored before the next one begins. A request is in one state at a time:
//
//	queued → grouped (in a batch that is not over) → fetched (its result is stored) → over
//	queued → direct (waits for an ordinary call) → over
//
// A batch that may have been submitted is looked up before it is submitted again, and a provider's answer is stored before it is used. The charge has
// the request's id, and the ledger accepts one charge per id.
package deferred

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/internal/sqlite"
	"bardo.money/gateway/policy"
)

//go:embed schema.sql
var schema string

// The states of a request.
const (
	queued  = "queued"
	grouped = "grouped"
	fetched = "fetched"
	direct  = "direct"
	over    = "over"
	gone    = "gone" // over, and its answer was deleted
)

// Request is a deferred request.
type Request struct {
	ID        string
	Account   policy.Account
	Dialect   chat.Dialect
	Subsystem string
	Prepaid   bool
	Held      policy.Micro // amount of its standing reservation in the ledger
	Secret    bool         // confidential or private
	At        time.Time
	Deadline  time.Time
	Cancelled bool
	Head      stream.Head
	Body      []byte

	state string
	tries int
	batch string
	size  int64
}

// Store is the file of deferred requests. Safe for concurrent use by one process.
type Store struct {
	db    *sql.DB
	seal  seal.Sealer
	owner string
	now   func() time.Time
}

// OpenStore opens the file, and creates it if it does not exist. keys encrypt content.
func OpenStore(ctx context.Context, path string, keys seal.Keys, now func() time.Time) (s *Store, err error) {
	s = &Store{now: now}
	if s.seal, err = keys.Sealer("deferred requests"); err != nil {
		return nil, err
	}
	if s.db, err = sqlite.Open(path, nil); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("deferred requests: %s: %w", path, err), s.db.Close())
	}
	return s, nil
}

// prepare creates the tables, and gives the store its name.
func (s *Store) prepare(ctx context.Context) error {
	create := func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO owner (id) VALUES (?)`, newName())
		return err
	}
	if err := sqlite.Prepare(ctx, s.db, create); err != nil {
		return err
	}
	return s.db.QueryRowContext(ctx, `SELECT id FROM owner`).Scan(&s.owner)
}

// newName returns a unique name.
func newName() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// Owner returns the store's name in the ledger.
func (s *Store) Owner() string { return s.owner }

func (s *Store) atomically(ctx context.Context, change func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
	if err := change(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// exec makes one change, which is on disk when it returns.
func (s *Store) exec(ctx context.Context, query string, args ...any) (changed int64, err error) {
	r, err := s.db.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Limits bound what one account may store.
type Limits struct {
	Requests int64
	Bytes    int64
}

// ErrFull is the error of a request beyond its account's limits.
var ErrFull = errors.New("the account has as many deferred requests as it may have")

// Add stores a request.
func (s *Store) Add(ctx context.Context, r *Request, limits Limits) error {
	head, err := json.Marshal(&r.Head)
	if err != nil {
		return err
	}
	size := int64(len(head) + len(r.Body))
	return s.atomically(ctx, func(tx *sql.Tx) error {
		var n, bytes int64
		err := tx.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(size), 0) FROM request WHERE account = ? AND state <> ?`, r.Account, gone).Scan(&n, &bytes)
		if err != nil {
			return err
		}
		if n >= limits.Requests || bytes+size > limits.Bytes {
			return ErrFull
		}
		at := s.now().UnixMicro()
		_, err = tx.ExecContext(ctx, `INSERT INTO request (id, account, state, dialect, subsystem, prepaid, held, secret, at, deadline, due, size, head, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, r.ID, r.Account, queued, r.Dialect, r.Subsystem, r.Prepaid, int64(r.Held), r.Secret, at, r.Deadline.UnixMicro(), at, size,
			s.seal.Seal("head "+r.ID, head), s.seal.Seal("body "+r.ID, r.Body))
		return err
	})
}

const selectRequest = `SELECT id, account, state, dialect, subsystem, prepaid, held, secret, at, deadline, tries, cancelled, coalesce(batch, ''), size FROM request `

type scanner interface{ Scan(into ...any) error }

func scanRequest(row scanner) (r Request, err error) {
	var at, deadline int64
	err = row.Scan(&r.ID, &r.Account, &r.state, &r.Dialect, &r.Subsystem, &r.Prepaid, &r.Held, &r.Secret, &at, &deadline, &r.tries, &r.Cancelled, &r.batch, &r.size)
	r.At, r.Deadline = time.UnixMicro(at), time.UnixMicro(deadline)
	return r, err
}

func readAll[T any](ctx context.Context, s *Store, scan func(scanner) (T, error), query string, args ...any) (all []T, err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
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

func scanText(row scanner) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}

// content reads the client's request. The error wraps seal.ErrKey if the key has changed.
func (s *Store) content(ctx context.Context, r *Request) error {
	var head, body []byte
	err := s.db.QueryRowContext(ctx, `SELECT head, body FROM request WHERE id = ?`, r.ID).Scan(&head, &body)
	if err != nil {
		return err
	}
	if head, err = s.seal.Open("head "+r.ID, head); err != nil {
		return err
	}
	if r.Body, err = s.seal.Open("body "+r.ID, body); err != nil {
		return err
	}
	return json.Unmarshal(head, &r.Head)
}

// inState returns the due requests in a state, the most urgent first.
func (s *Store) inState(ctx context.Context, state string, limit int) ([]Request, error) {
	return readAll(ctx, s, scanRequest, selectRequest+`WHERE state = ? AND due <= ? ORDER BY deadline LIMIT ?`, state, s.now().UnixMicro(), limit)
}

// overdue returns the unfinished requests whose deadline has passed.
func (s *Store) overdue(ctx context.Context) ([]Request, error) {
	return readAll(ctx, s, scanRequest, selectRequest+`WHERE state NOT IN (?, ?) AND deadline <= ? ORDER BY deadline LIMIT 100`, over, gone, s.now().UnixMicro())
}

// open returns all unfinished requests.
func (s *Store) open(ctx context.Context) ([]Request, error) {
	return readAll(ctx, s, scanRequest, selectRequest+`WHERE state NOT IN (?, ?)`, over, gone)
}

// move changes a request's state, if it has not changed since it was read.
func (s *Store) move(ctx context.Context, r *Request, state string, due time.Time, tries int) error {
	_, err := s.exec(ctx, `UPDATE request SET state = ?, due = ?, tries = ?, batch = NULL WHERE id = ? AND state = ?`, state, due.UnixMicro(), tries, r.ID, r.state)
	return err
}

// Call is a stored answer of a provider.
type Call struct {
	Digest []byte
	Batch  bool
	Model  string // of a batch's result: "provider/model"
	Masked bool
	Status int
	Body   []byte
}

// keepCall stores an answer.
func (s *Store) keepCall(ctx context.Context, request string, c *Call) error {
	_, err := s.exec(ctx, insertCall, s.callRow(request, c)...)
	return err
}

// insertCall stores nothing for a request that is over: a call may be answered while its request is cancelled.
const insertCall = `INSERT INTO call (request, digest, batch, model, masked, status, body) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
WHERE EXISTS (SELECT 1 FROM request WHERE id = ?1 AND state NOT IN ('` + over + `', '` + gone + `')) ON CONFLICT DO NOTHING`

func (s *Store) callRow(request string, c *Call) []any {
	return []any{request, c.Digest, c.Batch, c.Model, c.Masked, c.Status, s.seal.Seal("call "+request, c.Body)}
}

// calls returns a request's stored calls.
func (s *Store) calls(ctx context.Context, request string) (all []Call, err error) {
	scan := func(row scanner) (c Call, err error) {
		var body []byte
		if err := row.Scan(&c.Digest, &c.Batch, &c.Model, &c.Masked, &c.Status, &body); err != nil {
			return c, err
		}
		c.Body, err = s.seal.Open("call "+request, body)
		return c, err
	}
	return readAll(ctx, s, scan, `SELECT digest, batch, model, masked, status, body FROM call WHERE request = ?`, request)
}

// finish stores the answer of a request and deletes everything else of it.
func (s *Store) finish(ctx context.Context, id string, a *stream.Reply) error {
	answer, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return s.atomically(ctx, func(tx *sql.Tx) error {
		now := s.now().UnixMicro()
		_, err := tx.ExecContext(ctx, `UPDATE request SET state = ?, done = ?, due = ?, size = ?, head = NULL, body = NULL, answer = iif(cancelled, NULL, ?) WHERE id = ? AND state NOT IN (?, ?)`,
			over, now, now, len(answer), s.seal.Seal("answer "+id, answer), id, over, gone)
		if err != nil {
			return err
		}
		return dropWork(ctx, tx, id)
	})
}

// dropWork deletes intermediate data of a request.
func dropWork(ctx context.Context, tx *sql.Tx, id string) error {
	for _, query := range []string{`DELETE FROM call WHERE request = ?`, `DELETE FROM item WHERE request = ?`} {
		if _, err := tx.ExecContext(ctx, query, id); err != nil {
			return err
		}
	}
	return nil
}
