// Package remote forwards calls of a chain, its settler, registries of agents and positions of staked VVV to another process of this machine, over a Unix socket:
// for a data path in Envoy's process, which has no client of a chain's node. A forwarded call has the same outcome as a direct one, refusals included; a process
// that does not answer is like a node that does not answer. The package knows neither the node nor HTTP requests of clients.
package remote

import (
	"context"

	"bardo.money/gateway/policy/pay"
)

// The methods of a server, as in its paths.
const (
	methodCheck         = "check"
	methodVerify        = "verify"
	methodHead          = "head"
	methodSlot          = "slot"
	methodPrepare       = "prepare"
	methodSend          = "send"
	methodReceipt       = "receipt"
	methodUsed          = "used"
	methodFind          = "find"
	methodMark          = "mark"
	methodAffords       = "affords"
	methodSettlerCheck  = "settler/check"
	methodSettlerVerify = "settler/verify"
	methodSettlerSettle = "settler/settle"
)

// maxMessage is the maximum size of a request and a response, in bytes. The longest contain a contract wallet's signature or a signed transaction.
const maxMessage = 1 << 20

// empty is the empty request or response.
type empty struct{ Unused bool }

// response is a response: a value, or an error.
type response[T any] struct {
	Value    T
	Refusal  *pay.Refusal
	Revert   *pay.Revert
	Mismatch *pay.Mismatch
	NoAgent  bool   // identity.ErrNoAgent
	Error    string // any other error's text
}

// upTo is the result of pay.Chain.UpTo.
type upTo struct {
	Facilitator pay.Address
	OK          bool
}

// optional is an optional value.
type optional[T any] struct {
	Value T
	OK    bool
}

// prepareRequest is the request of Prepare.
type prepareRequest struct {
	Transfer pay.Transfer
	Slot     uint64
	Least    pay.Fees
}

// receiptRequest is the request of Receipt.
type receiptRequest struct {
	Hash     pay.Word
	Transfer pay.Transfer
}

// findRequest is the request of FindTransfer.
type findRequest struct {
	Transfer pay.Transfer
	From     uint64
}

// chain serves the methods of a chain.
type chain struct{ pay.Chain }

func (c chain) check(ctx context.Context, _ empty) (u upTo, err error) {
	err = c.Check(ctx)
	u.Facilitator, u.OK = c.UpTo()
	return u, err
}

func (c chain) verify(ctx context.Context, p pay.Payment) (empty, error) {
	return empty{}, c.Verify(ctx, &p)
}

func (c chain) head(ctx context.Context, _ empty) (pay.Block, error) { return c.Head(ctx) }

func (c chain) slot(ctx context.Context, _ empty) (uint64, error) { return c.Slot(ctx) }

func (c chain) prepare(ctx context.Context, t prepareRequest) (tx pay.Transaction, err error) {
	got, err := c.Prepare(ctx, &t.Transfer, t.Slot, t.Least)
	if err != nil {
		return tx, err
	}
	return *got, nil
}

func (c chain) send(ctx context.Context, raw []byte) (empty, error) {
	return empty{}, c.Send(ctx, raw)
}

func (c chain) receipt(ctx context.Context, o receiptRequest) (f optional[pay.Receipt], err error) {
	f.Value, f.OK, err = c.Receipt(ctx, o.Hash, &o.Transfer)
	return f, err
}

func (c chain) used(ctx context.Context, a pay.Authorization) (bool, error) { return c.Used(ctx, &a) }

func (c chain) find(ctx context.Context, s findRequest) (f optional[pay.Word], err error) {
	f.Value, f.OK, err = c.FindTransfer(ctx, &s.Transfer, s.From)
	return f, err
}

func (c chain) mark(ctx context.Context, hash pay.Word) (pay.Mark, error) { return c.Mark(ctx, hash) }

func (c chain) affords(ctx context.Context, _ empty) (int64, error) { return c.Affords(ctx) }

// settler serves the methods of a settler.
type settler struct{ pay.Settler }

func (s settler) check(ctx context.Context, _ empty) (empty, error) {
	return empty{}, s.Check(ctx)
}

func (s settler) verify(ctx context.Context, p pay.Payment) (empty, error) {
	return empty{}, s.Verify(ctx, &p)
}

func (s settler) settle(ctx context.Context, t pay.Transfer) (pay.Word, error) {
	return s.Settle(ctx, &t)
}
