// Package remote asks a chain, who settles there, registries of agents and positions of staked VVV, through another process of this machine, over a Unix socket: for a data path in Envoy's process, which
// has no client of a chain's node. What the client asks has the same outcome as if it asked the node, refusals included; a process that is away is a node
// that does not answer. It knows neither the node nor HTTP requests of clients.
package remote

import (
	"context"

	"bardo.money/gateway/policy/pay"
)

// The methods of a server, as they stand in its paths.
const (
	methodCheck    = "check"
	methodVerify   = "verify"
	methodHead     = "head"
	methodSlot     = "slot"
	methodPrepare  = "prepare"
	methodSend     = "send"
	methodReceipt  = "receipt"
	methodUsed     = "used"
	methodFind     = "find"
	methodMark     = "mark"
	methodAffords  = "affords"
	methodMayCheck = "settler/check"
	methodMayTake  = "settler/verify"
	methodSettle   = "settler/settle"
)

// maxMessage bounds a question and an answer, in bytes. The longest have a signature of a contract wallet, or a signed transaction.
const maxMessage = 1 << 20

// nothing is the content of a question or an answer without one.
type nothing struct{ Unused bool }

// answer is what a server says: a value, or why there is none.
type answer[T any] struct {
	Value    T
	Refusal  *pay.Refusal
	Revert   *pay.Revert
	Mismatch *pay.Mismatch
	NoAgent  bool   // identity.ErrNoAgent
	Error    string // any other error's text
}

// upTo is which account may use authorizations of scheme upto.
type upTo struct {
	Facilitator pay.Address
	OK          bool
}

// found is a value that there may be none of.
type found[T any] struct {
	Value T
	OK    bool
}

// transaction is a question for one.
type transaction struct {
	Transfer pay.Transfer
	Slot     uint64
	Least    pay.Fees
}

// outcome is a question for a transaction's.
type outcome struct {
	Hash     pay.Word
	Transfer pay.Transfer
}

// search is a question for a transfer, in blocks from a number on.
type search struct {
	Transfer pay.Transfer
	From     uint64
}

// chain answers questions about a chain.
type chain struct{ pay.Chain }

func (c chain) check(ctx context.Context, _ nothing) (u upTo, err error) {
	err = c.Check(ctx)
	u.Facilitator, u.OK = c.UpTo()
	return u, err
}

func (c chain) verify(ctx context.Context, p pay.Payment) (nothing, error) {
	return nothing{}, c.Verify(ctx, &p)
}

func (c chain) head(ctx context.Context, _ nothing) (pay.Block, error) { return c.Head(ctx) }

func (c chain) slot(ctx context.Context, _ nothing) (uint64, error) { return c.Slot(ctx) }

func (c chain) prepare(ctx context.Context, t transaction) (tx pay.Transaction, err error) {
	got, err := c.Prepare(ctx, &t.Transfer, t.Slot, t.Least)
	if err != nil {
		return tx, err
	}
	return *got, nil
}

func (c chain) send(ctx context.Context, raw []byte) (nothing, error) {
	return nothing{}, c.Send(ctx, raw)
}

func (c chain) receipt(ctx context.Context, o outcome) (f found[pay.Receipt], err error) {
	f.Value, f.OK, err = c.Receipt(ctx, o.Hash, &o.Transfer)
	return f, err
}

func (c chain) used(ctx context.Context, a pay.Authorization) (bool, error) { return c.Used(ctx, &a) }

func (c chain) find(ctx context.Context, s search) (f found[pay.Word], err error) {
	f.Value, f.OK, err = c.FindTransfer(ctx, &s.Transfer, s.From)
	return f, err
}

func (c chain) mark(ctx context.Context, hash pay.Word) (pay.Mark, error) { return c.Mark(ctx, hash) }

func (c chain) affords(ctx context.Context, _ nothing) (int64, error) { return c.Affords(ctx) }

// settler answers questions to who settles.
type settler struct{ pay.Settler }

func (s settler) check(ctx context.Context, _ nothing) (nothing, error) {
	return nothing{}, s.Check(ctx)
}

func (s settler) verify(ctx context.Context, p pay.Payment) (nothing, error) {
	return nothing{}, s.Verify(ctx, &p)
}

func (s settler) settle(ctx context.Context, t pay.Transfer) (pay.Word, error) {
	return s.Settle(ctx, &t)
}
