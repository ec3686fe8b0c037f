// Package outgoing stores the payments that this machine's wallets make, in a SQLite file. Each is stored durably before it is sent, so that neither a crash nor a
// lost response leads to a second payment for the same request, and so that the daily cap covers all processes. It neither signs nor queries a chain.
//
// An authorization is open from its signature on: whether it was used is unknown. It is answered once its request was served; used once the chain confirms the
// use; unused once the chain shows that it expired unused, and then it has cost nothing. In all other states it counts as spent, in full.
package outgoing

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"bardo.money/gateway/internal/sqlite"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
)

//go:embed schema.sql
var schema string

// State is the state of an authorization.
type State string

// The states.
const (
	Open     State = "open"
	Answered State = "answered"
	Used     State = "used"
	Unused   State = "unused"
)

// Authorization is a signed payment.
type Authorization struct {
	ID      int64
	Purpose string
	Request string
	Network string // its CAIP-2 name
	Asset   pay.Address
	pay.Authorization

	Paid    policy.Micro
	Header  string
	State   State
	Tx      string
	Reason  string
	At      time.Time
	Changed time.Time
}

// UnresolvedError refuses a second authorization for a request while the first one is open.
type UnresolvedError struct{ First Authorization }

func (e *UnresolvedError) Error() string {
	return fmt.Sprintf("a payment of $%s for this request was signed at %s, and its outcome is not known", e.First.Value, e.First.At.UTC().Format(time.RFC3339))
}

// CapError refuses an authorization that exceeds the daily cap.
type CapError struct{ Spent, Cap policy.Micro }

func (e *CapError) Error() string {
	return fmt.Sprintf("$%s of at most $%s were spent in the last 24 hours, and this payment exceeds that", e.Spent, e.Cap)
}

// Book is an open file. Safe for concurrent use, also by several processes.
type Book struct {
	db  *sql.DB
	now func() time.Time
}

// OpenBook opens the file, and creates it if there is none.
func OpenBook(ctx context.Context, path string, now func() time.Time) (*Book, error) {
	db, err := sqlite.Open(path, nil)
	if err == nil {
		if err = sqlite.Prepare(ctx, db, sqlite.Script(schema)); err != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("payments to others: %s: %w", path, err)
	}
	return &Book{db: db, now: now}, nil
}

// Close closes the file.
func (b *Book) Close() error { return b.db.Close() }

// day is the period of the cap.
const day = 24 * time.Hour

// Add stores an authorization durably, before it is sent. The error is a *UnresolvedError while another one of the same request is open, and a *CapError if more than
// maxDaily would be spent in 24 hours; zero means no cap.
func (b *Book) Add(ctx context.Context, a *Authorization, maxDaily policy.Micro) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := b.add(ctx, tx, a, maxDaily); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	return tx.Commit()
}

// ignoreDone drops the error of a transaction that has already ended.
func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

func (b *Book) add(ctx context.Context, tx *sql.Tx, a *Authorization, maxDaily policy.Micro) error {
	first, ok, err := one(tx.QueryContext(ctx, selectAll+`WHERE payer = ? AND purpose = ? AND request = ? AND state = 'open'`, a.From.String(), a.Purpose, a.Request))
	if ok {
		return &UnresolvedError{first}
	}
	if err != nil {
		return err
	}
	now := b.now()
	spent, err := spent(ctx, tx, a.From, a.Purpose, now)
	if err != nil {
		return err
	}
	if maxDaily > 0 && spent.Plus(a.Value) > maxDaily {
		return &CapError{spent, maxDaily}
	}
	a.State, a.Paid, a.At, a.Changed = Open, a.Value, now, now
	r, err := tx.ExecContext(ctx, `INSERT INTO payment (purpose, request, network, asset, payer, nonce, pay_to, upto, amount, paid, valid_before, header, state, at, changed)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, a.Purpose, a.Request, a.Network, a.Asset.String(), a.From.String(), a.Nonce.String(), a.To.String(), a.UpTo,
		a.Value, a.Paid, a.ValidBefore, a.Header, a.State, now.UnixMicro(), now.UnixMicro())
	if err != nil {
		return err
	}
	a.ID, err = r.LastInsertId()
	return err
}

// querier is a transaction, or the database.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func spent(ctx context.Context, q querier, payer pay.Address, purpose string, now time.Time) (m policy.Micro, err error) {
	err = q.QueryRowContext(ctx, `SELECT coalesce(sum(paid), 0) FROM payment WHERE payer = ? AND purpose = ? AND at > ?`, payer.String(), purpose, now.Add(-day).UnixMicro()).Scan(&m)
	return m, err
}

// Spent returns what a wallet has spent for a purpose in the last 24 hours, including open authorizations.
func (b *Book) Spent(ctx context.Context, payer pay.Address, purpose string) (policy.Micro, error) {
	return spent(ctx, b.db, payer, purpose, b.now())
}

// AtRisk returns the sum of all open authorizations.
func (b *Book) AtRisk(ctx context.Context) (m policy.Micro, err error) {
	err = b.db.QueryRowContext(ctx, `SELECT coalesce(sum(amount), 0) FROM payment WHERE state = 'open'`).Scan(&m)
	return m, err
}

// Unresolved returns the open authorization of a request; ok is false if there is none.
func (b *Book) Unresolved(ctx context.Context, payer pay.Address, purpose, request string) (a Authorization, ok bool, err error) {
	return one(b.db.QueryContext(ctx, selectAll+`WHERE payer = ? AND purpose = ? AND request = ? AND state = 'open'`, payer.String(), purpose, request))
}

// Find returns an authorization by its id.
func (b *Book) Find(ctx context.Context, id int64) (Authorization, error) {
	a, ok, err := one(b.db.QueryContext(ctx, selectAll+`WHERE id = ?`, id))
	if err == nil && !ok {
		err = sql.ErrNoRows
	}
	return a, err
}

// Unsettled returns the authorizations for which the chain has to be queried: the open and the answered ones.
func (b *Book) Unsettled(ctx context.Context) ([]Authorization, error) {
	return list(b.db.QueryContext(ctx, selectAll+`WHERE state IN ('open', 'answered') ORDER BY id`))
}

// Recent returns the latest authorizations, the newest first.
func (b *Book) Recent(ctx context.Context, limit int) ([]Authorization, error) {
	return list(b.db.QueryContext(ctx, selectAll+`ORDER BY id DESC LIMIT ?`, limit))
}

// Answer stores that a request was served. tx is the transaction that the payee reported, or "": it is no proof, so the chain is still queried.
func (b *Book) Answer(ctx context.Context, id int64, tx string) error {
	_, err := b.db.ExecContext(ctx, `UPDATE payment SET state = 'answered', tx = ?, reason = '', header = '', changed = ? WHERE id = ? AND state = 'open'`, tx, b.now().UnixMicro(), id)
	return err
}

// Fail stores why the outcome of a request is unknown. Its authorization stays open.
func (b *Book) Fail(ctx context.Context, id int64, reason string) error {
	_, err := b.db.ExecContext(ctx, `UPDATE payment SET reason = ?, changed = ? WHERE id = ? AND state = 'open'`, reason, b.now().UnixMicro(), id)
	return err
}

// Resolve stores the outcome on the chain. An authorization that expired unused has cost nothing.
func (b *Book) Resolve(ctx context.Context, id int64, used bool) error {
	state, paid := Used, `amount`
	if !used {
		state, paid = Unused, `0`
	}
	_, err := b.db.ExecContext(ctx, `UPDATE payment SET state = ?, paid = `+paid+`, header = '', changed = ? WHERE id = ? AND state IN ('open', 'answered')`, state, b.now().UnixMicro(), id)
	return err
}

const selectAll = `SELECT id, purpose, request, network, asset, payer, nonce, pay_to, upto, amount, paid, valid_before, header, state, tx, reason, at, changed FROM payment `

func one(rows *sql.Rows, err error) (a Authorization, ok bool, _ error) {
	all, err := list(rows, err)
	if err != nil || len(all) == 0 {
		return Authorization{}, false, err
	}
	return all[0], true, nil
}

func list(rows *sql.Rows, err error) (all []Authorization, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		a, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, rows.Err()
}

func scan(rows *sql.Rows) (a Authorization, err error) {
	var asset, payer, nonce, to string
	var at, changed int64
	if err := rows.Scan(&a.ID, &a.Purpose, &a.Request, &a.Network, &asset, &payer, &nonce, &to, &a.UpTo, &a.Value, &a.Paid, &a.ValidBefore, &a.Header, &a.State, &a.Tx, &a.Reason, &at, &changed); err != nil {
		return a, err
	}
	var errs [4]error
	a.Asset, errs[0] = pay.ParseAddress(asset)
	a.From, errs[1] = pay.ParseAddress(payer)
	a.To, errs[2] = pay.ParseAddress(to)
	a.Nonce, errs[3] = pay.ParseWord(nonce)
	a.At, a.Changed = time.UnixMicro(at), time.UnixMicro(changed)
	return a, errors.Join(errs[:]...)
}
