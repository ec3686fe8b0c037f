package book

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
)

// View is a payment as its payer and its operator see it.
type View struct {
	State       string       `json:"state"` // serving, released, served, settling, confirmed, final or failed
	Scheme      pay.Scheme   `json:"scheme"`
	Network     string       `json:"network"`
	Asset       string       `json:"asset"`
	Payer       string       `json:"payer"`
	PayTo       string       `json:"pay_to"`
	Authorized  policy.Micro `json:"authorized_usd"` // what was signed
	Amount      policy.Micro `json:"amount_usd"`     // what is moved; 0 until the request was served
	Fee         policy.Micro `json:"settlement_fee_usd"`
	Credit      policy.Micro `json:"credit_usd"` // of the amount, what is left to the wallet; below zero: what its credit paid
	Transaction string       `json:"transaction,omitempty"`
	Block       uint64       `json:"block,omitempty"`
	BlockHash   string       `json:"block_hash,omitempty"`
	Attempts    int          `json:"failed_attempts,omitempty"`
	Reason      string       `json:"reason,omitempty"` // why the last attempt to settle failed
}

// View is the payment as it stands.
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

// State is how far the payment is, in one word: its settlement once there is one, else its service.
func (p *Payment) State() string {
	if p.Settlement == None {
		return string(p.Service)
	}
	return string(p.Settlement)
}

// File is the store of payments beside a ledger's file.
func File(ledger string) string { return filepath.Join(filepath.Dir(ledger), "payments.db") }

// Inspect opens a store without taking part in it; ok is false where there is none. It must be closed.
func Inspect(path string) (b *Book, ok bool, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	db, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro&_busy_timeout=5000"}).String())
	return &Book{db: db}, err == nil, err
}

// Look reads the payment of a request from a store, without taking part in it; ok is false where there is none, or no store.
func Look(ctx context.Context, path, requestID string) (p Payment, ok bool, err error) {
	b, ok, err := Inspect(path)
	if err != nil || !ok {
		return Payment{}, false, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return b.ByRequest(ctx, requestID)
}

// Page is the payments behind one, in the order of their ids.
func (b *Book) Page(ctx context.Context, after int64, limit int) ([]Payment, error) {
	return b.list(ctx, `id IN (SELECT id FROM payment WHERE id > ? ORDER BY id LIMIT ?)`, after, limit)
}
