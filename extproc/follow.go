package extproc

import (
	"context"
	"errors"
	"strings"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
)

// followPollInterval is how often a stream of events checks whether the gateway drains and whether the caller's credential is still valid.
const followPollInterval = time.Second

// streamEvents sends a stream of events until its client disconnects, its time limit expires or the gateway drains.
func (x *exchange) streamEvents(ctx context.Context, r stream.Reply, f api.Follower) error {
	defer f.Close()
	x.trace.Unbilled = &record.End{Status: r.Status, Outcome: record.OK}
	if err := x.client.StreamHead(r.Status, r.Header); err != nil {
		return err
	}
	checked := time.Now()
	for end := checked.Add(api.StreamLife); time.Now().Before(end) && !x.gw.Draining(); {
		if time.Since(checked) >= followPollInterval {
			if x.credentialRevoked(ctx) {
				break
			}
			checked = time.Now()
		}
		b, err := f.Next(ctx, followPollInterval)
		if err == nil && len(b) > 0 {
			err = x.client.StreamBody(b, false)
		}
		if err != nil {
			return err
		}
	}
	return x.client.StreamBody(nil, true)
}

// streamToken returns the stream token in the address, by which a caller can authenticate; "" for none.
func (x *exchange) streamToken() string {
	if x.Head.Path != api.StreamPath {
		return ""
	}
	return api.StreamToken(x.Head.Query)
}

// byStreamToken authenticates a caller by a stream token in the address; ok is false if there is none.
func (x *exchange) byStreamToken(ctx context.Context) (p policy.Principal, ok bool, err error) {
	token := x.streamToken()
	if token == "" {
		return p, false, nil
	}
	t, err := x.gw.api.Tokens.Check(token, x.Head.Peer.IsLoopback(), time.Now())
	switch {
	case err != nil:
	case t.Local && x.Config.Keyless == runtime.KeylessNobody:
		err = fault.Newf(fault.InvalidAPIKey, "a development token is valid while no API key is needed")
	case !t.Local:
		err = x.keyRefused(ctx, t.Account)
	}
	return policy.Principal{Account: t.Account, Anonymous: t.Account == ""}, err == nil, err
}

// keyRefused returns the error with which an account's key would be refused now; nil if it would be accepted, and for an account without a key, such
// as a wallet's.
func (x *exchange) keyRefused(ctx context.Context, a policy.Account) error {
	row, ok, err := x.gw.Ledger.Key(ctx, a)
	switch {
	case err != nil:
		return fault.New(fault.Unavailable, "API keys cannot be verified at the moment", err)
	case !ok:
		return nil
	case row.Revoked():
		return fault.Newf(fault.InvalidAPIKey, "the API key that this token was issued for was revoked")
	}
	p := row.Principal()
	return auth.CheckUse(&p, auth.Request{Header: x.Head.Header, Client: x.Head.Peer})
}

// credentialRevoked reports whether the reader of a stream of events has lost access: its credential was revoked or replaced, or has expired. If that
// cannot be checked at the moment, access continues.
func (x *exchange) credentialRevoked(ctx context.Context) bool {
	var err error
	switch {
	case x.Principal.Account == "":
		return false
	case x.streamToken() != "", x.Head.Header.Has(header.Delegation): // the proof of a delegate can be used once
		err = x.keyRefused(ctx, x.Principal.Account)
	default:
		_, _, err = x.gw.Verifier.Verify(ctx, x.authRequest())
	}
	f, ok := errors.AsType[*fault.Fault](err)
	return ok && (f.Kind == fault.InvalidAPIKey || f.Kind == fault.KeyRestricted)
}

// acceptsAnyToken reports whether an invalid credential is accepted: a development token, on this machine, with authentication off.
func (x *exchange) acceptsAnyToken() bool {
	return x.Head.Path == api.StreamTokenPath && x.Config.Keyless != runtime.KeylessNobody && x.Head.Peer.IsLoopback() &&
		strings.HasPrefix(strings.ToLower(x.Head.Header.Get("authorization")), "bearer ")
}
