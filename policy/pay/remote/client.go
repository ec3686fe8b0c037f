package remote

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/typed"
)

// callTime is the time of a question whose caller has no deadline. A server asks its node within less.
const callTime = 30 * time.Second

// caller asks another process. It connects when it is asked, again after each loss. Safe for concurrent use.
type caller struct{ http http.Client }

// Client is a chain by another process. Safe for concurrent use.
type Client struct {
	caller

	terms *pay.Terms
	upTo  atomic.Pointer[upTo] // as the server last said
}

var _ pay.Chain = (*Client)(nil)

// NewClient is the client of a socket. It does not connect yet.
func NewClient(socket string, terms *pay.Terms) *Client {
	c := &Client{terms: terms}
	c.connectTo(socket)
	return c
}

func (c *caller) connectTo(socket string) {
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, DisableCompression: true,
	}
}

// Close drops idle connections.
func (c *caller) Close() { c.http.CloseIdleConnections() }

// Check implements pay.Chain.
func (c *Client) Check(ctx context.Context) error {
	u, err := ask[nothing, upTo](ctx, &c.caller, methodCheck, nothing{})
	if err == nil {
		c.upTo.Store(&u)
	}
	return err
}

// UpTo implements pay.Chain, by the last Check.
func (c *Client) UpTo() (facilitator pay.Address, ok bool) {
	if u := c.upTo.Load(); u != nil {
		return u.Facilitator, u.OK
	}
	return facilitator, false
}

// Signed implements pay.Chain. It asks nobody.
func (c *Client) Signed(p *pay.Payment) bool {
	who, ok := typed.Recover(typed.Digest(c.terms.Asset, c.terms.Network.ID, &p.Authorization), p.Signature)
	return ok && who == p.From
}

// Verify implements pay.Chain.
func (c *Client) Verify(ctx context.Context, p *pay.Payment) error {
	_, err := ask[pay.Payment, nothing](ctx, &c.caller, methodVerify, *p)
	return err
}

// Head implements pay.Chain.
func (c *Client) Head(ctx context.Context) (pay.Block, error) {
	return ask[nothing, pay.Block](ctx, &c.caller, methodHead, nothing{})
}

// Slot implements pay.Chain.
func (c *Client) Slot(ctx context.Context) (uint64, error) {
	return ask[nothing, uint64](ctx, &c.caller, methodSlot, nothing{})
}

// Prepare implements pay.Chain.
func (c *Client) Prepare(ctx context.Context, t *pay.Transfer, slot uint64, least pay.Fees) (*pay.Transaction, error) {
	tx, err := ask[transaction, pay.Transaction](ctx, &c.caller, methodPrepare, transaction{*t, slot, least})
	if err != nil {
		return nil, err
	}
	return &tx, nil
}

// Send implements pay.Chain.
func (c *Client) Send(ctx context.Context, raw []byte) error {
	_, err := ask[[]byte, nothing](ctx, &c.caller, methodSend, raw)
	return err
}

// Receipt implements pay.Chain.
func (c *Client) Receipt(ctx context.Context, hash pay.Word, t *pay.Transfer) (r pay.Receipt, ok bool, err error) {
	f, err := ask[outcome, found[pay.Receipt]](ctx, &c.caller, methodReceipt, outcome{hash, *t})
	return f.Value, f.OK, err
}

// Used implements pay.Chain.
func (c *Client) Used(ctx context.Context, a *pay.Authorization) (bool, error) {
	return ask[pay.Authorization, bool](ctx, &c.caller, methodUsed, *a)
}

// Mark implements pay.Chain.
func (c *Client) Mark(ctx context.Context, hash pay.Word) (pay.Mark, error) {
	return ask[pay.Word, pay.Mark](ctx, &c.caller, methodMark, hash)
}

// FindTransfer implements pay.Chain.
func (c *Client) FindTransfer(ctx context.Context, t *pay.Transfer, from uint64) (hash pay.Word, ok bool, err error) {
	f, err := ask[search, found[pay.Word]](ctx, &c.caller, methodFind, search{*t, from})
	return f.Value, f.OK, err
}

// Affords implements pay.Chain.
func (c *Client) Affords(ctx context.Context) (int64, error) {
	return ask[nothing, int64](ctx, &c.caller, methodAffords, nothing{})
}

// Settler is who settles in place of an account of the chain's client.
func (c *Client) Settler() pay.Settler { return settles{c} }

// settles is a settler by another process.
type settles struct{ *Client }

// Check implements pay.Settler.
func (s settles) Check(ctx context.Context) error {
	_, err := ask[nothing, nothing](ctx, &s.caller, methodMayCheck, nothing{})
	return err
}

// Verify implements pay.Settler.
func (s settles) Verify(ctx context.Context, p *pay.Payment) error {
	_, err := ask[pay.Payment, nothing](ctx, &s.caller, methodMayTake, *p)
	return err
}

// Settle implements pay.Settler.
func (s settles) Settle(ctx context.Context, t *pay.Transfer) (pay.Word, error) {
	return ask[pay.Transfer, pay.Word](ctx, &s.caller, methodSettle, *t)
}

// errAway is that of a question that finds no server. It has no outcome.
var errAway = errors.New("the process that asks the chain does not answer")

// ask puts one question. The value is the server's, also beside an error.
func ask[In, Out any](ctx context.Context, c *caller, method string, in In) (out Out, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(&in); err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://chain/"+method, bytes.NewReader(body.Bytes()))
	if err != nil {
		return out, err
	}
	req.Header["Idempotency-Key"] = nil // it is not sent, and lets a question be repeated on a new connection if the server closed an idle one
	resp, err := c.http.Do(req)
	if err != nil {
		return out, fmt.Errorf("%w: %w", errAway, err)
	}
	defer func() { _ = resp.Body.Close() }()
	var a answer[Out]
	if err := gob.NewDecoder(io.LimitReader(resp.Body, maxMessage)).Decode(&a); err != nil || resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("%w: %s, %w", errAway, resp.Status, err)
	}
	return a.Value, a.err()
}

// err is the error of an answer.
func (a *answer[T]) err() error {
	switch {
	case a.Refusal != nil:
		return a.Refusal
	case a.Revert != nil:
		return a.Revert
	case a.Mismatch != nil:
		return a.Mismatch
	case a.NoAgent:
		return identity.ErrNoAgent
	case a.Error != "":
		return errors.New(a.Error)
	}
	return nil
}
