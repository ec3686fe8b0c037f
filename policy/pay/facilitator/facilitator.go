// Package facilitator settles payments by an x402 facilitator over HTTP (/supported, /verify, /settle, versions 1 and 2): the pay.Settler of operators without a
// settling account. It stores nothing. A facilitator's statement about a transfer only counts once the chain confirms it.
package facilitator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy/pay"
)

// Options of a client.
type Options struct {
	URL           string // to which /verify is appended
	Authorization string // the header of that name; "" for none
	Terms         *pay.Terms
}

// Client is a facilitator's client. Safe for concurrent use.
type Client struct {
	o       Options
	http    *http.Client
	version atomic.Int32 // protocol version for the terms' payments; 0 until Check has succeeded
}

var _ pay.Settler = (*Client)(nil)

// Bounds of calls.
const (
	callTimeout = 30 * time.Second // a facilitator may wait for the block of a transfer
	maxAnswer   = 256 << 10        // bytes
)

// New returns a client. It makes no call yet.
func New(o Options) *Client {
	o.URL = strings.TrimRight(o.URL, "/")
	return &Client{o: o, http: &http.Client{Timeout: callTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// kind is a kind of payments that a facilitator settles.
type kind struct {
	Version int        `json:"x402Version"`
	Scheme  pay.Scheme `json:"scheme"`
	Network string     `json:"network"`
}

// Check implements pay.Settler. It selects the newest common version.
func (c *Client) Check(ctx context.Context) error {
	if c.version.Load() != 0 {
		return nil
	}
	var answer struct {
		Kinds []kind `json:"kinds"`
	}
	status, err := c.call(ctx, http.MethodGet, "/supported", nil, &answer)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("the facilitator answers %d to /supported", status)
	}
	best := 0
	for _, k := range answer.Kinds {
		if k.Scheme == pay.SchemeExact && (k.Version == 1 || k.Version == 2) && c.o.Terms.Network.Is(k.Network, k.Version) {
			best = max(best, k.Version)
		}
	}
	if best == 0 {
		return &pay.Mismatch{Detail: fmt.Sprintf("the facilitator does not settle scheme exact on %s", c.o.Terms.Network)}
	}
	c.version.Store(int32(best))
	return nil
}

// Verify implements pay.Settler.
func (c *Client) Verify(ctx context.Context, p *pay.Payment) error {
	if p.UpTo {
		return p.Refuse(pay.ReasonScheme, "scheme upto is not taken here")
	}
	var answer struct {
		Valid  *bool  `json:"isValid"`
		Reason string `json:"invalidReason"`
	}
	status, err := c.order(ctx, "/verify", &p.Authorization, p.Signature, &answer)
	switch {
	case err != nil:
		return err
	case answer.Valid == nil || *answer.Valid && status != http.StatusOK:
		return fmt.Errorf("the facilitator answers %d to /verify", status)
	case !*answer.Valid:
		return &pay.Refusal{Reason: reason(answer.Reason, pay.ReasonTransfer), Detail: "the facilitator does not take the payment"}
	}
	return nil
}

// Settle implements pay.Settler.
func (c *Client) Settle(ctx context.Context, t *pay.Transfer) (hash pay.Word, err error) {
	var answer struct {
		Success     *bool  `json:"success"`
		Reason      string `json:"errorReason"`
		Transaction string `json:"transaction"`
	}
	status, err := c.order(ctx, "/settle", &t.Authorization, t.Signature, &answer)
	if err != nil {
		return hash, err
	}
	if answer.Success == nil {
		return hash, fmt.Errorf("the facilitator answers %d to /settle", status)
	}
	if hash, err = pay.ParseWord(answer.Transaction); err != nil {
		hash = pay.Word{} // it reports none
	}
	switch {
	case *answer.Success:
		return hash, nil
	case hash != pay.Word{} || answer.Reason == pay.ReasonPending: // it was sent
		return hash, fmt.Errorf("the facilitator has not settled the payment yet (%s)", reason(answer.Reason, pay.ReasonPending))
	}
	return hash, &pay.Refusal{Reason: reason(answer.Reason, pay.ReasonTransfer), Detail: "the facilitator does not settle the payment"}
}

// reason returns a facilitator's code, or otherwise if it has not the form of a code.
func reason(code, otherwise string) string {
	const maxCode = 100
	if code == "" || len(code) > maxCode || strings.Trim(code, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return otherwise
	}
	return code
}

// order posts a payment.
func (c *Client) order(ctx context.Context, path string, a *pay.Authorization, signature []byte, into any) (status int, err error) {
	if err := c.Check(ctx); err != nil {
		return 0, err
	}
	body, err := json.Marshal(c.o.Terms.Order(int(c.version.Load()), a, signature))
	if err != nil {
		return 0, err
	}
	return c.call(ctx, http.MethodPost, path, body, into)
}

// call makes a call, and parses the JSON response. No error contains the facilitator's address, which may contain a key.
func (c *Client) call(ctx context.Context, method, path string, body []byte, into any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.o.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the facilitator's address is not valid")
	}
	req.Header.Set("Content-Type", "application/json")
	if c.o.Authorization != "" {
		req.Header.Set("Authorization", c.o.Authorization)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, errors.New("the facilitator does not answer")
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil || len(text) > maxAnswer {
		return 0, errors.New("the facilitator's answer cannot be read")
	}
	if json.Unmarshal(text, into) != nil {
		return 0, fmt.Errorf("the facilitator answers %d, and not what the protocol says", resp.StatusCode)
	}
	return resp.StatusCode, nil
}
