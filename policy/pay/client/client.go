// Package client pays for requests by the x402 protocol (versions 1 and 2): it parses the price in a 402 response, refuses offers that its rules do not allow,
// signs and stores an authorization, and has the request sent again with it. It knows neither how requests are sent nor for whom, and needs no client of a
// chain: the state of an authorization takes three JSON-RPC calls.
//
// Once an authorization has left the process, the request may have been paid for, whatever the response is. No other authorization is therefore signed for that
// request until the outcome is known: the same one is sent again while it is valid, and afterwards the chain is queried (Reconcile).
package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/outgoing"
	"bardo.money/gateway/policy/pay/typed"
)

// Wallet pays for requests. Safe for concurrent use.
type Wallet struct {
	Key     Key
	Rules   Rules
	Purpose string // in the book; the daily cap is per purpose
	Book    *outgoing.Book
	Quotes  *Quotes // nil: prices are not cached
	Now     func() time.Time
}

// Request identifies the paid request and limits its price.
type Request struct {
	Name     string       // at most one authorization per name is open
	Once     bool         // it is not sent again with an open authorization
	MaxPrice policy.Micro // maximum price, in addition to the rules; zero: only the rules apply

	SimilarKey string       // key of cached prices: requests with the same key have similar prices; "": its price is not cached
	Size       policy.Micro // estimated price, which is compared with that of the cached price's request
}

// Send sends the request, with an additional header unless name is "".
type Send func(name, value string) (*http.Response, error)

// Payment is the outcome of a payment.
type Payment struct {
	outgoing.Authorization

	Receipt    Receipt // the payee's statement
	HasReceipt bool    // there is a receipt
	Resent     bool    // the authorization was signed earlier
}

// UnknownError is the error of a request that was sent with a payment and not answered.
type UnknownError struct {
	Payment outgoing.Authorization
	Err     error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("$%s may have been paid to %s, and there was no answer: %v", e.Payment.Value, e.Payment.To, e.Err)
}

func (e *UnknownError) Unwrap() error { return e.Err }

// Do sends a request, and pays for it if the server requires that. Payment is nil if nothing was signed. The error is a *Refusal if the rules allow none of the
// server's offers, an *outgoing.CapError or *outgoing.UnresolvedError if the book refuses, an *UnknownError if the payment was sent and there was no response; else
// that of Send or of the book. The caller closes the response's body.
func (w *Wallet) Do(ctx context.Context, r *Request, send Send) (*http.Response, *Payment, error) {
	doubt, ok, err := w.Book.Unresolved(ctx, w.Key.Address(), w.Purpose, r.Name)
	if err != nil {
		return nil, nil, err
	}
	if ok {
		return w.resend(ctx, r, &doubt, send)
	}
	if q, ok := w.Quotes.find(r, w.Now()); ok && w.limits(r).allowsAgain(&q) {
		return w.payCached(ctx, r, &q, send)
	}
	resp, err := send("", "")
	if err != nil || resp.StatusCode != http.StatusPaymentRequired {
		return resp, nil, err
	}
	offer, asset, err := w.price(resp, r)
	if err != nil {
		return nil, nil, err
	}
	resp, p, err := w.payOffer(ctx, r, offer, asset, send)
	if p != nil && p.State == outgoing.Answered {
		w.Quotes.add(r, offer, asset, w.Now())
	}
	return resp, p, err
}

// payCached pays a cached price without asking for it. A server that requires another one now is not paid again: it has an authorization for this request.
func (w *Wallet) payCached(ctx context.Context, r *Request, q *quote, send Send) (*http.Response, *Payment, error) {
	resp, p, err := w.payOffer(ctx, r, &q.offer, q.asset, send)
	if p == nil || p.State != outgoing.Answered {
		w.Quotes.drop(r)
	}
	return resp, p, err
}

// payOffer signs and stores the authorization of an offer, and sends the request with it.
func (w *Wallet) payOffer(ctx context.Context, r *Request, o *Offer, a Asset, send Send) (*http.Response, *Payment, error) {
	p, err := w.sign(o, a)
	if err != nil {
		return nil, nil, err
	}
	p.Request = r.Name
	if err := w.Book.Add(ctx, &p.Authorization, w.Rules.MaxDaily); err != nil {
		return nil, nil, err
	}
	return w.pay(ctx, p, send)
}

// limits are the rules for one request.
func (w *Wallet) limits(r *Request) *Rules {
	rules := w.Rules
	if r.MaxPrice > 0 {
		rules.MaxPrice = min(rules.MaxPrice, r.MaxPrice)
	}
	return &rules
}

// price returns the accepted offer of a response, which it closes.
func (w *Wallet) price(resp *http.Response, r *Request) (*Offer, Asset, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, Asset{}, fmt.Errorf("the price cannot be read: %w", err)
	}
	offers, unread, err := readOffers(resp.Header.Get(headerRequired), body)
	if err != nil {
		return nil, Asset{}, &Refusal{Reasons: []string{"the server wants a payment, and " + err.Error()}}
	}
	return w.limits(r).choose(offers, unread)
}

// resend sends the request with its open authorization, which can be used only once.
func (w *Wallet) resend(ctx context.Context, r *Request, doubt *outgoing.Authorization, send Send) (*http.Response, *Payment, error) {
	if r.Once || w.Now().Unix() >= int64(doubt.ValidBefore) || doubt.Header == "" { //nolint:gosec // a time
		return nil, nil, &outgoing.UnresolvedError{First: *doubt}
	}
	if why := w.limits(r).forbids(doubt); why != "" { // it may not have been sent
		return nil, nil, &Refusal{Reasons: []string{fmt.Sprintf("a payment for this request was signed at %s, which is not allowed any more: %s", doubt.At.UTC().Format(time.RFC3339), why)}}
	}
	return w.pay(ctx, &Payment{Authorization: *doubt, Resent: true}, send)
}

// pay sends the request with its payment, and stores the outcome.
func (w *Wallet) pay(ctx context.Context, p *Payment, send Send) (*http.Response, *Payment, error) {
	name, value, _ := strings.Cut(p.Header, ": ")
	resp, err := send(name, value)
	ctx = context.WithoutCancel(ctx)
	if err != nil {
		p.Reason = "no answer"
		return nil, p, errors.Join(&UnknownError{p.Authorization, err}, w.Book.Fail(ctx, p.ID, p.Reason))
	}
	p.Receipt, p.HasReceipt = readReceipt(resp.Header.Get)
	if resp.StatusCode/100 != 2 {
		reason := fmt.Sprintf("the answer was %d", resp.StatusCode)
		if p.HasReceipt && p.Receipt.ErrorReason != "" {
			reason += ": " + p.Receipt.ErrorReason
		}
		p.Reason = reason
		return resp, p, w.Book.Fail(ctx, p.ID, reason)
	}
	tx := ""
	if p.HasReceipt && p.Receipt.Success {
		tx = p.Receipt.Transaction
	}
	p.State, p.Tx = outgoing.Answered, tx
	return resp, p, w.Book.Answer(ctx, p.ID, tx)
}

// sign returns the signed authorization of an offer. It is not stored yet.
func (w *Wallet) sign(o *Offer, asset Asset) (*Payment, error) {
	a := pay.Authorization{UpTo: o.Scheme == pay.SchemeUpTo, From: w.Key.Address(), To: o.PayTo, Value: o.Amount, ValidBefore: uint64(w.Now().Unix() + o.Timeout)} //nolint:gosec // a time
	if _, err := rand.Read(a.Nonce[:]); err != nil {
		return nil, err
	}
	if a.UpTo {
		var err error
		if a.Facilitator, err = pay.ParseAddress(o.Facilitator); err != nil {
			return nil, err
		}
	}
	text, err := encodePayment(o, a.Payload(asset.Token.Address, w.Key.sign(typed.Digest(asset.Token, asset.Network.ID, &a))))
	if err != nil {
		return nil, err
	}
	name := headerPayment
	if o.Version == 1 {
		name = headerPayment1
	}
	return &Payment{Authorization: outgoing.Authorization{
		Purpose: w.Purpose, Network: asset.Network.String(), Asset: asset.Token.Address, Authorization: a, Header: name + ": " + text,
	}}, nil
}

// message is a payment in both versions of the protocol.
type message struct {
	Version  int             `json:"x402Version"`
	Scheme   pay.Scheme      `json:"scheme,omitempty"`   // version 1
	Network  string          `json:"network,omitempty"`  // version 1
	Resource json.RawMessage `json:"resource,omitempty"` // version 2, unchanged from the server
	Accepted json.RawMessage `json:"accepted,omitempty"` // the same
	Payload  any             `json:"payload"`
}

// encodePayment returns the value of a payment's header.
func encodePayment(o *Offer, payload any) (string, error) {
	m := message{Version: o.Version, Payload: payload}
	if o.Version == 1 {
		m.Scheme, m.Network = o.Scheme, o.Network
	} else {
		m.Resource, m.Accepted = o.resource, o.raw
	}
	b, err := json.Marshal(m)
	return base64.StdEncoding.EncodeToString(b), err
}
