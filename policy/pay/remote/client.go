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

// callTimeout is the timeout of a call. A server's calls to its node have shorter ones.
const callTimeout = 30 * time.Second

// caller makes calls to another process. It connects on demand. Safe for concurrent use.
type caller struct{ http http.Client }

// Client is a chain through another process. Safe for concurrent use.
type Client struct {
	caller

	terms *pay.Terms
	upTo  atomic.Pointer[upTo] // of the last Check
}

var _ pay.Chain = (*Client)(nil)

// NewClient returns the client of a socket. It does not connect yet.
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

// Close closes idle connections.
func (c *caller) Close() { c.http.CloseIdleConnections() }

// Check implements pay.Chain.
func (c *Client) Check(ctx context.Context) error {
	u, err := call[empty, upTo](ctx, &c.caller, methodCheck, empty{})
	if err == nil {
		c.upTo.Store(&u)
	}
	return err
}

// UpTo implements pay.Chain. It returns the result of the last Check.
func (c *Client) UpTo() (facilitator pay.Address, ok bool) {
	if u := c.upTo.Load(); u != nil {
		return u.Facilitator, u.OK
	}
	return facilitator, false
}

// Signed implements pay.Chain, without a call.
func (c *Client) Signed(p *pay.Payment) bool {
	who, ok := typed.Recover(typed.Digest(c.terms.Asset, c.terms.Network.ID, &p.Authorization), p.Signature)
	return ok && who == p.From
}

// Verify implements pay.Chain.
func (c *Client) Verify(ctx context.Context, p *pay.Payment) error {
	_, err := call[pay.Payment, empty](ctx, &c.caller, methodVerify, *p)
	return err
}

// Head implements pay.Chain.
func (c *Client) Head(ctx context.Context) (pay.Block, error) {
	return call[empty, pay.Block](ctx, &c.caller, methodHead, empty{})
}

// Slot implements pay.Chain.
func (c *Client) Slot(ctx context.Context) (uint64, error) {
	return call[empty, uint64](ctx, &c.caller, methodSlot, empty{})
}

// Prepare implements pay.Chain.
func (c *Client) Prepare(ctx context.Context, t *pay.Transfer, slot uint64, minFees pay.Fees) (*pay.Transaction, error) {
	tx, err := call[prepareRequest, pay.Transaction](ctx, &c.caller, methodPrepare, prepareRequest{*t, slot, minFees})
	if err != nil {
		return nil, err
	}
	return &tx, nil
}

// Send implements pay.Chain.
func (c *Client) Send(ctx context.Context, raw []byte) error {
	_, err := call[[]byte, empty](ctx, &c.caller, methodSend, raw)
	return err
}

// Receipt implements pay.Chain.
func (c *Client) Receipt(ctx context.Context, hash pay.Word, t *pay.Transfer) (r pay.Receipt, ok bool, err error) {
	f, err := call[receiptRequest, optional[pay.Receipt]](ctx, &c.caller, methodReceipt, receiptRequest{hash, *t})
	return f.Value, f.OK, err
}

// Used implements pay.Chain.
func (c *Client) Used(ctx context.Context, a *pay.Authorization) (bool, error) {
	return call[pay.Authorization, bool](ctx, &c.caller, methodUsed, *a)
}

// Mark implements pay.Chain.
func (c *Client) Mark(ctx context.Context, hash pay.Word) (pay.Mark, error) {
	return call[pay.Word, pay.Mark](ctx, &c.caller, methodMark, hash)
}

// FindTransfer implements pay.Chain.
func (c *Client) FindTransfer(ctx context.Context, t *pay.Transfer, from uint64) (hash pay.Word, ok bool, err error) {
	f, err := call[findRequest, optional[pay.Word]](ctx, &c.caller, methodFind, findRequest{*t, from})
	return f.Value, f.OK, err
}

// Affords implements pay.Chain.
func (c *Client) Affords(ctx context.Context) (int64, error) {
	return call[empty, int64](ctx, &c.caller, methodAffords, empty{})
}

// Settler returns the settler of the other process.
func (c *Client) Settler() pay.Settler { return settlerClient{c} }

// settlerClient is a settler through another process.
type settlerClient struct{ *Client }

// Check implements pay.Settler.
func (s settlerClient) Check(ctx context.Context) error {
	_, err := call[empty, empty](ctx, &s.caller, methodSettlerCheck, empty{})
	return err
}

// Verify implements pay.Settler.
func (s settlerClient) Verify(ctx context.Context, p *pay.Payment) error {
	_, err := call[pay.Payment, empty](ctx, &s.caller, methodSettlerVerify, *p)
	return err
}

// Settle implements pay.Settler.
func (s settlerClient) Settle(ctx context.Context, t *pay.Transfer) (pay.Word, error) {
	return call[pay.Transfer, pay.Word](ctx, &s.caller, methodSettlerSettle, *t)
}

// errUnavailable is the error of a call that no server answered. Its outcome is unknown.
var errUnavailable = errors.New("the process that asks the chain does not answer")

// call makes one call. It returns the server's value also with an error.
func call[In, Out any](ctx context.Context, c *caller, method string, in In) (out Out, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(&in); err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://chain/"+method, bytes.NewReader(body.Bytes()))
	if err != nil {
		return out, err
	}
	req.Header["Idempotency-Key"] = nil // not sent; allows net/http to repeat the call if the server closed an idle connection
	resp, err := c.http.Do(req)
	if err != nil {
		return out, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	defer func() { _ = resp.Body.Close() }()
	var a response[Out]
	if err := gob.NewDecoder(io.LimitReader(resp.Body, maxMessage)).Decode(&a); err != nil || resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("%w: %s, %w", errUnavailable, resp.Status, err)
	}
	return a.Value, a.err()
}

// err returns the error of a response.
func (a *response[T]) err() error {
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
