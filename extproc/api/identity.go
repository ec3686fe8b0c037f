package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/identity"
)

// The endpoints of identities from outside the gateway that are linked to an account.

// Identities are the links of accounts, and what proves control of an identity. Safe for concurrent use.
type Identities struct {
	Book  *identity.Book
	Privy PrivyTokens // nil: Privy is not configured
}

// PrivyTokens verify tokens of Privy.
type PrivyTokens interface {
	// Subject is whose token it is. The error is a fault.
	Subject(ctx context.Context, token string) (string, error)
}

// MaxLinkBody is the longest body of POST /v1/identity/link, in bytes.
const MaxLinkBody = 16 << 10

// linkReply is a link as clients see it.
type linkReply struct {
	Subject   identity.Subject `json:"subject"`
	LinkedAt  string           `json:"linked_at"`
	ExpiresAt string           `json:"expires_at,omitempty"`
}

func showLink(l *identity.Link) linkReply {
	r := linkReply{Subject: l.Subject, LinkedAt: l.At.UTC().Format(time.RFC3339)}
	if !l.Expires.IsZero() {
		r.ExpiresAt = l.Expires.UTC().Format(time.RFC3339)
	}
	return r
}

// identityReply is GET /v1/identity.
type identityReply struct {
	Object  string      `json:"object"`
	Account string      `json:"account"`
	Links   []linkReply `json:"links"`
}

// Identity is GET /v1/identity: the calling account's links.
func (s *Server) Identity(ctx context.Context, c *Caller) (stream.Reply, error) {
	if err := s.mayLink(c); err != nil {
		return stream.Reply{}, err
	}
	all, err := s.Identities.Book.Links(ctx, c.Principal.Account)
	if err != nil {
		return stream.Reply{}, err
	}
	r := identityReply{Object: "identity", Account: string(c.Principal.Account), Links: []linkReply{}}
	for i := range all {
		if !all[i].Over(time.Now()) {
			r.Links = append(r.Links, showLink(&all[i]))
		}
	}
	return notStored(c, r)
}

// mayLink refuses callers who have no account to link something to.
func (s *Server) mayLink(c *Caller) error {
	switch {
	case s.Identities == nil:
		return fault.Newf(fault.NotFound, "this gateway links no identities (auth.privy)")
	case c.Principal.Account == "":
		return fault.Newf(fault.InvalidAPIKey, "identities are linked to the account of an API key: send one")
	}
	return nil
}

// mayChangeLinks refuses callers who may not change links, too: only the key of the account itself may, not an identity that is linked to it.
func (s *Server) mayChangeLinks(c *Caller) error {
	if err := s.mayLink(c); err != nil {
		return err
	}
	if !auth.IsKey(c.Head.Header) {
		return fault.Newf(fault.KeyRestricted, "links are changed with an API key of the account (bardo_sk_…)")
	}
	return auth.MayGenerate(c.Principal)
}

// LinkIdentity is POST /v1/identity/link: {"privy_token": "…"}.
func (s *Server) LinkIdentity(ctx context.Context, c *Caller) (stream.Reply, error) {
	if err := s.mayChangeLinks(c); err != nil {
		return stream.Reply{}, err
	}
	token, err := parsePrivyLink(c.Body)
	if err != nil {
		return stream.Reply{}, err
	}
	if s.Identities.Privy == nil {
		return stream.Reply{}, wire.Invalid("privy_token", "%s", "this gateway does not know Privy (auth.privy)")
	}
	subject, err := s.Identities.Privy.Subject(ctx, token)
	if err != nil {
		return stream.Reply{}, err
	}
	l := identity.Link{Subject: identity.Privy + identity.Subject(subject), Account: c.Principal.Account, At: time.Now()}
	if err := s.Identities.Book.Link(ctx, l); err != nil {
		return stream.Reply{}, identityFault(err)
	}
	return notStored(c, showLink(&l))
}

// parsePrivyLink reads the body of a link. The error is a fault that names the member.
func parsePrivyLink(body []byte) (token string, err error) {
	doc, err := jsonx.Unique.Scan(body)
	if err != nil {
		return "", wire.NotJSON(err)
	}
	token, ok := doc.Get("privy_token").Str()
	if !ok || token == "" {
		return "", wire.Invalid("privy_token", "%s", "the access token of a Privy user is required")
	}
	return token, nil
}

// UnlinkIdentity is DELETE /v1/identity/link?subject=….
func (s *Server) UnlinkIdentity(ctx context.Context, c *Caller) (stream.Reply, error) {
	if err := s.mayChangeLinks(c); err != nil {
		return stream.Reply{}, err
	}
	q, err := url.ParseQuery(c.Head.Query)
	if err != nil {
		return stream.Reply{}, fault.New(fault.InvalidRequest, "the query string cannot be read", err)
	}
	subject := identity.Subject(q.Get("subject"))
	if err := s.Identities.Book.Unlink(ctx, c.Principal.Account, subject); err != nil {
		return stream.Reply{}, identityFault(err)
	}
	return notStored(c, struct {
		Subject identity.Subject `json:"subject"`
		Deleted bool             `json:"deleted"`
	}{subject, true})
}

// identityFault is what a client is told of an error about links.
func identityFault(err error) error {
	switch {
	case errors.Is(err, identity.ErrUnknown):
		return fault.New(fault.NotFound, "this account has no such link", err)
	case errors.Is(err, identity.ErrFull):
		return fault.New(fault.InvalidRequest, err.Error(), err)
	case errors.Is(err, identity.ErrUsed):
		return fault.New(fault.Conflict, "this proof of control was used before: sign a new one", err)
	}
	return err
}

// notStored is an answer that no cache keeps.
func notStored(c *Caller, v any) (stream.Reply, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return stream.Reply{}, err
	}
	r := c.Head.JSON(body)
	r.Header = append(r.Header, header.Field{Name: "cache-control", Value: "no-store"})
	return r, nil
}
