package pay

import (
	"context"
	"math/big"
	"time"
)

// Chain is a node of the terms' network, with the key that settles. Its errors are the node's, unless they are said to be others; what a node does not
// answer has no outcome. Safe for concurrent use.
type Chain interface {
	// Check makes sure that the node is of the terms' chain, and that the token has the domain that payers sign for. The error is a *Mismatch if not.
	Check(ctx context.Context) error
	// UpTo is the account that may use authorizations of scheme upto; ok is false while the chain is not known to have what the scheme needs.
	UpTo() (facilitator Address, ok bool)
	// Signed reports whether the payer, as an account without code, signed the authorization. It needs no node.
	Signed(p *Payment) bool
	// Verify makes sure that the token would take the authorization now: its signature, also that of a contract wallet, the payer's balance and the nonce.
	// The error is a *Refusal if it would not.
	Verify(ctx context.Context, p *Payment) error
	// Head is the newest block.
	Head(ctx context.Context) (Block, error)
	// Slot is the number of transactions of the settling account that were mined, which is the next one's number.
	Slot(ctx context.Context) (uint64, error)
	// Prepare signs the transfer as a transaction of the settling account, which pays at least the fees of least. The error is a *Revert if it would fail.
	Prepare(ctx context.Context, t *Transfer, slot uint64, least Fees) (*Transaction, error)
	// Send gives a transaction to the node. One that it has already is no error.
	Send(ctx context.Context, raw []byte) error
	// Receipt is the outcome of a transaction; ok is false while it is not in a block.
	Receipt(ctx context.Context, hash Word, t *Transfer) (r Receipt, ok bool, err error)
	// Used reports whether the authorization was used or cancelled.
	Used(ctx context.Context, a *Authorization) (bool, error)
	// FindTransfer finds the transaction that used the authorization, whoever sent it, in blocks from a number on; ok is false if none did.
	FindTransfer(ctx context.Context, t *Transfer, from uint64) (hash Word, ok bool, err error)
	// Mark is the mark that a transaction has; zero for none.
	Mark(ctx context.Context, hash Word) (Mark, error)
	// Affords is how many transfers the settling account can pay for.
	Affords(ctx context.Context) (int64, error)
}

// NodeOptions say where a chain's node is, and who settles.
type NodeOptions struct {
	URL   string // of its JSON-RPC interface
	Key   string // 32 bytes as hexadecimal digits: the private key of the account that settles; "": a Settler does
	Terms *Terms
}

// Mismatch says that a node or a token is not that of the terms.
type Mismatch struct{ Detail string }

func (m *Mismatch) Error() string { return m.Detail }

// Block is a block of a chain.
type Block struct {
	Number uint64
	Time   time.Time
}

// Fees are what a transaction offers for a unit of gas, in wei.
type Fees struct{ Tip, Cap *big.Int }

// Raised are the fees that replace a transaction of these: nodes want a tenth more, this is a quarter.
func (f Fees) Raised() Fees {
	return Fees{raise(f.Tip), raise(f.Cap)}
}

func raise(n *big.Int) *big.Int {
	if n == nil {
		return nil
	}
	more := new(big.Int).Div(n, big.NewInt(4))
	return more.Add(more, n).Add(more, big.NewInt(1))
}

// Transaction is a signed transaction.
type Transaction struct {
	Hash Word
	Slot uint64
	Raw  []byte
	Fees Fees
}

// Receipt is the outcome of a transaction.
type Receipt struct {
	Block     uint64
	BlockHash Word
	Succeeded bool
	Paid      bool // it moved the transfer's amount from its payer to its payee
}

// Revert is why a transfer would fail, in the token's words.
type Revert struct{ Reason string }

func (r *Revert) Error() string { return "the transfer would fail: " + r.Reason }
