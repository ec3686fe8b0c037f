// Package follow is about streams of events that a client reads for a long time, such as GET /v1/events: how long one lasts, the tokens in addresses by
// which browsers authenticate, and whether a reader still has access.
package follow

import (
	"context"
	"errors"
	"strings"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/cognition"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
)

// pollInterval is how often a stream of events checks whether the gateway drains and whether the reader's credential is still valid.
const pollInterval = time.Second

// Reader is the reader of a stream of events, or the sender of any other request, who may authenticate by a stream token. Not safe for concurrent use.
type Reader struct {
	*request.View

	Tokens   *cognition.Tokens
	Keys     Keys
	Verifier auth.Verifier
	Request  auth.Request // the request in the form that Verifier reads
}

// Keys finds the rows of API keys. *ledger.Ledger implements it.
type Keys interface {
	// Key returns an account's key; ok is false if there is none.
	Key(ctx context.Context, a policy.Account) (row ledger.KeyRow, ok bool, err error)
}

// Send sends a stream of events to d until its client disconnects, its time limit expires or the gateway drains. It closes f.
func (r *Reader) Send(ctx context.Context, d stream.Client, head stream.Reply, f api.Follower, draining func() bool) error {
	defer f.Close()
	if err := d.StreamHead(head.Status, head.Header); err != nil {
		return err
	}
	checked := time.Now()
	for end := checked.Add(api.StreamLife); time.Now().Before(end) && !draining(); {
		if time.Since(checked) >= pollInterval {
			if r.Revoked(ctx) {
				break
			}
			checked = time.Now()
		}
		b, err := f.Next(ctx, pollInterval)
		if err == nil && len(b) > 0 {
			err = d.StreamBody(b, false)
		}
		if err != nil {
			return err
		}
	}
	return d.StreamBody(nil, true)
}

// token returns the stream token in the address, by which a caller can authenticate; "" for none.
func (r *Reader) token() string {
	if r.Head.Path != api.StreamPath {
		return ""
	}
	return api.StreamToken(r.Head.Query)
}

// ByToken authenticates a caller by a stream token in the address; ok is false if there is none.
func (r *Reader) ByToken(ctx context.Context) (p policy.Principal, ok bool, err error) {
	token := r.token()
	if token == "" {
		return p, false, nil
	}
	t, err := r.Tokens.Check(token, r.Head.Peer.IsLoopback(), time.Now())
	switch {
	case err != nil:
	case t.Local && r.Config.Keyless == runtime.KeylessNobody:
		err = fault.Newf(fault.InvalidAPIKey, "a development token is valid while no API key is needed")
	case !t.Local:
		err = r.keyRefused(ctx, t.Account)
	}
	return policy.Principal{Account: t.Account, Anonymous: t.Account == ""}, err == nil, err
}

// keyRefused returns the error with which an account's key would be refused now; nil if it would be accepted, and for an account without a key, such
// as a wallet's.
func (r *Reader) keyRefused(ctx context.Context, a policy.Account) error {
	row, ok, err := r.Keys.Key(ctx, a)
	switch {
	case err != nil:
		return fault.New(fault.Unavailable, "API keys cannot be verified at the moment", err)
	case !ok:
		return nil
	case row.Revoked():
		return fault.Newf(fault.InvalidAPIKey, "the API key that this token was issued for was revoked")
	}
	p := row.Principal()
	return auth.CheckUse(&p, auth.Request{Header: r.Head.Header, Client: r.Head.Peer})
}

// Revoked reports whether the reader has lost access: its credential was revoked or replaced, or has expired. If that cannot be checked at the moment,
// access continues.
func (r *Reader) Revoked(ctx context.Context) bool {
	_, revoked := r.Current(ctx)
	return revoked
}

// Current returns the reader's principal as its key is now, as far as that can be checked at the moment; see Revoked.
func (r *Reader) Current(ctx context.Context) (p policy.Principal, revoked bool) {
	p = r.Principal
	var err error
	switch {
	case r.Principal.Account == "":
		return p, false
	case r.token() != "", r.Head.Header.Has(header.Delegation): // the proof of a delegate can be used once
		err = r.keyRefused(ctx, r.Principal.Account)
	default:
		var ok bool
		if p, ok, err = r.Verifier.Verify(ctx, r.Request); !ok || err != nil {
			p = r.Principal
		}
	}
	f, ok := errors.AsType[*fault.Fault](err)
	return p, ok && (f.Kind == fault.InvalidAPIKey || f.Kind == fault.KeyRestricted)
}

// AcceptsAnyToken reports whether an invalid credential is accepted: a development token, on this machine, with authentication off.
func AcceptsAnyToken(v *request.View) bool {
	return v.Head.Path == api.StreamTokenPath && v.Config.Keyless != runtime.KeylessNobody && v.Head.Peer.IsLoopback() &&
		strings.HasPrefix(strings.ToLower(v.Head.Header.Get("authorization")), "bearer ")
}
