package pay

import (
	"context"
	"math/big"
	"time"
)

// Chain is a node of the terms' network, with the settlement key. Errors are the node's unless stated otherwise; after an error the outcome is unknown.
// Safe for concurrent use.
type Chain interface {
	// Check verifies that the node is of the terms' chain, and that the token has the EIP-712 domain of the terms. The error is a *Mismatch if not.
	Check(ctx context.Context) error
	// UpTo returns the account that may use authorizations of scheme upto; ok is false until the scheme's contracts were found on the chain.
	UpTo() (facilitator Address, ok bool)
	// Signed reports whether the signature is that of the payer as an account without code. It does not call the node.
	Signed(p *Payment) bool
	// Verify checks that the token would accept the authorization now: the signature (of an account or a contract wallet), the payer's balance and the nonce.
	// The error is a *Refusal if it would not.
	Verify(ctx context.Context, p *Payment) error
	// Head returns the newest block.
	Head(ctx context.Context) (Block, error)
	// Slot returns the settling account's next transaction nonce, without those in no block.
	Slot(ctx context.Context) (uint64, error)
	// Prepare signs the transfer as a transaction of the settling account, with at least the fees minFees. The error is a *Revert if it would fail.
	Prepare(ctx context.Context, t *Transfer, slot uint64, minFees Fees) (*Transaction, error)
	// Send sends a transaction to the node. Sending it again is not an error.
	Send(ctx context.Context, raw []byte) error
	// Receipt returns the outcome of a transaction; ok is false while it is in no block.
	Receipt(ctx context.Context, hash Word, t *Transfer) (r Receipt, ok bool, err error)
	// Used reports whether the authorization was used or cancelled.
	Used(ctx context.Context, a *Authorization) (bool, error)
	// FindTransfer searches the blocks from number from on for the transaction that used the authorization, of any sender; ok is false if there is none.
	FindTransfer(ctx context.Context, t *Transfer, from uint64) (hash Word, ok bool, err error)
	// Mark returns the mark of a transaction; zero if it has none.
	Mark(ctx context.Context, hash Word) (Mark, error)
	// Affords returns the number of transfers whose gas the settling account can pay.
	Affords(ctx context.Context) (int64, error)
}

// NodeOptions are the address of a chain's node and the settlement key.
type NodeOptions struct {
	URL   string // of its JSON-RPC interface
	Key   string // 32 bytes as hexadecimal digits: the private key of the settling account; "" where a Settler settles
	Terms *Terms
}

// Mismatch is the error of a node or token that is not that of the terms.
type Mismatch struct{ Detail string }

func (m *Mismatch) Error() string { return m.Detail }

// Block is a block of a chain.
type Block struct {
	Number uint64
	Time   time.Time
}

// Fees are a transaction's fees per unit of gas, in wei.
type Fees struct{ Tip, Cap *big.Int }

// Raised returns the fees of a transaction that replaces one with these: 25 % more, where nodes require 10 %.
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
	Paid      bool // it moved the transfer's amount from the payer to the payee
}

// Revert is the token's reason why a transfer would fail.
type Revert struct{ Reason string }

func (r *Revert) Error() string { return "the transfer would fail: " + r.Reason }
