package book

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/pay"
)

// View is the representation of a payment for payers and operators.
type View struct {
	State       string       `json:"state"` // serving, released, served, settling, confirmed, final or failed
	Scheme      pay.Scheme   `json:"scheme"`
	Network     string       `json:"network"`
	Asset       string       `json:"asset"`
	Payer       string       `json:"payer"`
	PayTo       string       `json:"pay_to"`
	Authorized  policy.Micro `json:"authorized_usd"` // the signed amount
	Amount      policy.Micro `json:"amount_usd"`     // moved, or to be moved; 0 until the request was served
	Fee         policy.Micro `json:"settlement_fee_usd"`
	Credit      policy.Micro `json:"credit_usd"` // the part of the amount that is credited to the wallet; below zero: the part of the cost that its credit paid
	Transaction string       `json:"transaction,omitempty"`
	Block       uint64       `json:"block,omitempty"`
	BlockHash   string       `json:"block_hash,omitempty"`
	Attempts    int          `json:"failed_attempts,omitempty"`
	Reason      string       `json:"reason,omitempty"` // of the last failed attempt to settle
}

// View returns the current state of the payment.
func (p *Payment) View() View {
	v := View{
		State: p.State(), Scheme: p.Scheme(), Network: p.Network, Asset: p.Asset, Payer: p.From.String(), PayTo: p.To.String(),
		Authorized: p.Value, Amount: p.Captured, Block: p.Block, Attempts: p.Attempts, Reason: p.Reason,
	}
	if p.Service == Served {
		v.Fee, v.Credit = p.Fee, p.Captured-p.Fee-p.Charge
	}
	if p.Tx != (pay.Word{}) {
		v.Transaction = p.Tx.String()
	}
	if p.BlockHash != (pay.Word{}) {
		v.BlockHash = p.BlockHash.String()
	}
	return v
}

// State returns the settlement of the payment once there is one, else its service.
func (p *Payment) State() string {
	if p.Settlement == None {
		return string(p.Service)
	}
	return string(p.Settlement)
}

// Inspect opens a store for reading; ok is false if there is none. It must be closed.
func Inspect(ctx context.Context, at Place) (b *Book, ok bool, err error) {
	if at.File == "" {
		return inspectDatabase(ctx, at)
	}
	if _, err := os.Stat(at.File); errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	db, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: at.File, RawQuery: "mode=ro&_busy_timeout=5000"}).String())
	return &Book{db: db, queries: queries{on: db}}, err == nil, err
}

func inspectDatabase(ctx context.Context, at Place) (b *Book, ok bool, err error) {
	if at.Connect == nil {
		return nil, false, store.ErrNoPostgres
	}
	db, err := at.Connect(ctx, at.URL, false)
	if err != nil {
		return nil, false, err
	}
	if ok, err = hasTables(ctx, db); err != nil || !ok {
		return nil, false, errors.Join(err, db.Close())
	}
	return &Book{db: db, queries: queries{db, store.ForPostgres}}, true, nil
}

// Look reads the payment of a request from a store; ok is false if there is none, or no store.
func Look(ctx context.Context, at Place, requestID string) (p Payment, ok bool, err error) {
	b, ok, err := Inspect(ctx, at)
	if err != nil || !ok {
		return Payment{}, false, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return b.ByRequest(ctx, requestID)
}

// Listed is a payment in a list for operators.
type Listed struct {
	ID      int64     `json:"id"`
	Request string    `json:"request_id"`
	At      time.Time `json:"created_at"`
	Changed time.Time `json:"changed_at"`
	View

	Account   policy.Account `json:"-"` // of the payer
	Reference string         `json:"-"` // in the ledger
}

// Filter selects payments. The zero value selects all.
type Filter struct {
	Payer  *pay.Address
	State  string // as in View
	Before int64  // only payments with a lower id; 0 means all
	Limit  int    // maximum number; 0 means 100
}

// States are the possible states of a payment.
var States = []string{string(Serving), string(Released), string(Served), string(Settling), string(Confirmed), string(Final), string(Failed)}

// List returns payments, the latest first.
func (b *Book) List(ctx context.Context, f Filter) ([]Listed, error) {
	payer := ""
	if f.Payer != nil {
		payer = f.Payer.String()
	}
	const defaultLimit = 100
	found, err := b.list(ctx, `id IN (SELECT id FROM payment WHERE (?1 = '' OR payer = ?1) AND (?2 = '' OR settlement = ?2 OR settlement = 'none' AND service = ?2)
	AND (?3 = 0 OR id < ?3) ORDER BY id DESC LIMIT ?4)`, payer, f.State, f.Before, cmp.Or(f.Limit, defaultLimit))
	slices.Reverse(found)
	out := make([]Listed, len(found))
	for i := range found {
		p := &found[i]
		out[i] = Listed{p.ID, p.Request, p.At.UTC(), p.Changed.UTC(), p.View(), pay.Account(p.From), p.Reference()}
	}
	return out, err
}

// Page returns the payments with ids above after, in the order of their ids.
func (b *Book) Page(ctx context.Context, after int64, limit int) ([]Payment, error) {
	return b.list(ctx, `id IN (SELECT id FROM payment WHERE id > ? ORDER BY id LIMIT ?)`, after, limit)
}
