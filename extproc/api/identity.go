package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/pay"
)

// Endpoints of external identities that are linked to an account.

// Identities holds the links of accounts, and the verifiers of control over an identity. Safe for concurrent use.
type Identities struct {
	Book  *identity.Book
	Privy PrivyTokens // nil: Privy is not configured

	Agents *identity.Agents // nil: no agent registry is configured
}

// Spread returns the percentage on provider cost for an account's reputation; 0: none.
func (i *Identities) Spread(a policy.Account) int {
	if i == nil || i.Agents == nil {
		return 0
	}
	return i.Agents.Spread(a)
}

// PrivyTokens verify tokens of Privy.
type PrivyTokens interface {
	// Subject returns the subject of the token. The error is a fault.
	Subject(ctx context.Context, token string) (string, error)
}

// MaxLinkBody is the maximum size of the body of POST /v1/identity/link, in bytes.
const MaxLinkBody = 16 << 10

// linkReply is a link as shown to clients.
type linkReply struct {
	Subject   identity.Subject `json:"subject"`
	LinkedAt  string           `json:"linked_at"`
	ExpiresAt string           `json:"expires_at,omitempty"`
	Agent     *agentReply      `json:"agent,omitempty"`
}

// agentReply describes a linked agent.
type agentReply struct {
	ID         string `json:"agent_id"`
	Holder     string `json:"holder"`
	Score      int64  `json:"score"`
	Reputation string `json:"reputation"`
	SpreadPct  *int   `json:"spread_pct"` // null: none of its own
	ReadAt     string `json:"read_at"`
}

func showAgent(s *identity.AgentState) *agentReply {
	pct, tier := identity.ReputationSpread(s.Score)
	r := &agentReply{ID: identity.AgentIDText(s.ID), Holder: s.Link.Holder, Score: s.Score, Reputation: tier, ReadAt: s.At.UTC().Format(time.RFC3339)}
	if pct > 0 {
		r.SpreadPct = &pct
	}
	return r
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
		if !all[i].Expired(time.Now()) {
			r.Links = append(r.Links, s.Identities.show(&all[i]))
		}
	}
	return notStored(c, r)
}

// show returns a link with the known facts of its agent.
func (i *Identities) show(l *identity.Link) linkReply {
	r := showLink(l)
	if i.Agents == nil {
		return r
	}
	if s := i.Agents.Of(l.Account); s != nil && s.Link.Subject == l.Subject {
		r.Agent = showAgent(s)
	}
	return r
}

// errNoLinks is the fault of a gateway without identities.
var errNoLinks = fault.Newf(fault.NotFound, "this gateway links no identities (auth.privy, auth.erc8004)")

// mayLink refuses callers without an account.
func (s *Server) mayLink(c *Caller) error {
	switch {
	case s.Identities == nil:
		return errNoLinks
	case c.Principal.Account == "":
		return fault.Newf(fault.InvalidAPIKey, "identities are linked to the account of an API key: send one")
	}
	return nil
}

// mayChangeLinks also refuses callers who may not change links: only the account's own key may, not a linked identity.
func (s *Server) mayChangeLinks(c *Caller) error {
	if err := s.mayLink(c); err != nil {
		return err
	}
	if !auth.IsKey(c.Head.Header) || c.Principal.Publishable {
		return fault.Newf(fault.KeyRestricted, "links are changed with an API key of the account (bardo_sk_…)")
	}
	return auth.MayGenerate(c.Principal)
}

// LinkIdentity is POST /v1/identity/link: {"privy_token": "…"}, or {"agent_id": "…"} for the message that an agent's holder has to sign, then the
// same with the signature. With {"wallet": true} the agent is linked to its holder's own wallet, which needs no key.
func (s *Server) LinkIdentity(ctx context.Context, c *Caller) (stream.Reply, error) {
	if s.Identities == nil {
		return stream.Reply{}, errNoLinks
	}
	doc, err := jsonx.Unique.Scan(c.Body)
	if err != nil {
		return stream.Reply{}, wire.NotJSON(err)
	}
	own, malformed := readLinkForm(&doc)
	if own {
		return s.linkAgent(ctx, c, &doc, "")
	}
	if err := s.mayChangeLinks(c); err != nil {
		return stream.Reply{}, err
	}
	if malformed != nil {
		return stream.Reply{}, malformed
	}
	if has(&doc, "agent_id") {
		return s.linkAgent(ctx, c, &doc, c.Principal.Account)
	}
	token, ok := doc.Get("privy_token").Str()
	switch {
	case !ok || token == "":
		return stream.Reply{}, wire.Invalid("privy_token", "%s", "the access token of a Privy user is required, or the agent_id of an agent")
	case s.Identities.Privy == nil:
		return stream.Reply{}, wire.Invalid("privy_token", "%s", "this gateway does not know Privy (auth.privy)")
	}
	return s.linkUser(ctx, c, token)
}

// readLinkForm checks the members of the body of a link: those of a user, or those of an agent. own reports whether the agent is linked to its
// holder's own wallet.
func readLinkForm(doc *jsonx.Doc) (own bool, err error) {
	if !has(doc, "agent_id") {
		return false, onlyMembers(doc, "privy_token", "agent_id")
	}
	// The answer to the first step may be sent back unchanged, with the signature.
	if err := onlyMembers(doc, "agent_id", "wallet", "holder", "nonce", "expires", "signature", "object", "typed_data"); err != nil {
		return false, err
	}
	own, ok := doc.Get("wallet").Bool()
	if !ok && has(doc, "wallet") {
		return false, wire.Invalid("wallet", "%s", "true or false is expected")
	}
	return own, nil
}

func (s *Server) linkUser(ctx context.Context, c *Caller, token string) (stream.Reply, error) {
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

// claimReply is the message that an agent's holder has to sign.
type claimReply struct {
	Object    string          `json:"object"`
	AgentID   string          `json:"agent_id"`
	Holder    string          `json:"holder"`
	Nonce     string          `json:"nonce"`
	Expires   int64           `json:"expires"`
	TypedData json.RawMessage `json:"typed_data"`
}

// linkAgent answers with the message to sign, or links the agent if it is signed: to an account, or for "" to its holder's own.
func (s *Server) linkAgent(ctx context.Context, c *Caller, doc *jsonx.Doc, account policy.Account) (stream.Reply, error) {
	agents := s.Identities.Agents
	if agents == nil {
		return stream.Reply{}, wire.Invalid("agent_id", "%s", "this gateway knows no registry of agents (auth.erc8004)")
	}
	claim, signature, err := parseClaim(doc)
	if err != nil {
		return stream.Reply{}, err
	}
	if signature == nil {
		made, err := agents.NewClaim(ctx, claim.Agent, claim.Holder, account)
		if err != nil {
			return stream.Reply{}, identityFault(err)
		}
		data, err := made.TypedData(agents.Realm())
		if err != nil {
			return stream.Reply{}, err
		}
		return notStored(c, claimReply{"identity.claim", identity.AgentIDText(made.Agent), made.Holder.String(), made.Nonce.String(), made.Expires, data})
	}
	if claim.Account = string(account); account == "" {
		claim.Account = string(pay.Account(claim.Holder))
	}
	standing, err := agents.Link(ctx, claim, signature)
	if err != nil {
		return stream.Reply{}, identityFault(err)
	}
	r := showLink(&standing.Link)
	r.Agent = showAgent(standing)
	return notStored(c, r)
}

// parseClaim parses a claim and its signature, nil if there is none. The error is a fault that names the member.
func parseClaim(doc *jsonx.Doc) (c *identity.LinkClaim, signature []byte, err error) {
	c = &identity.LinkClaim{}
	text := func(name string) string {
		s, _ := doc.Get(name).Str()
		return s
	}
	id := text("agent_id")
	if n := doc.Get("agent_id"); id == "" {
		id = string(n.Raw)
	}
	if c.Agent, err = identity.ParseAgentID(id); err != nil {
		return nil, nil, wire.Invalid("agent_id", "%s", err.Error())
	}
	if has(doc, "holder") {
		if c.Holder, err = pay.ParseAddress(text("holder")); err != nil {
			return nil, nil, wire.Invalid("holder", "%s", err.Error())
		}
	}
	if !has(doc, "signature") {
		return c, nil, nil
	}
	digits, has := strings.CutPrefix(text("signature"), "0x")
	if signature, err = hex.DecodeString(digits); err != nil || !has || len(signature) == 0 || len(signature) > identity.MaxSignature {
		return nil, nil, wire.Invalid("signature", "%s", "0x and the signature in hexadecimal digits are expected")
	}
	if c.Nonce, err = pay.ParseWord(text("nonce")); err != nil {
		return nil, nil, wire.Invalid("nonce", "%s", err.Error())
	}
	var ok bool
	if c.Expires, ok = doc.Get("expires").Int(); !ok {
		return nil, nil, wire.Invalid("expires", "%s", "a time in seconds since 1970 is expected")
	}
	if c.Holder == (pay.Address{}) {
		return nil, nil, wire.Invalid("holder", "%s", "the address that signed is required")
	}
	return c, signature, nil
}

// UnlinkIdentity is DELETE /v1/identity/link?subject=….
func (s *Server) UnlinkIdentity(ctx context.Context, c *Caller) (stream.Reply, error) {
	if err := s.mayChangeLinks(c); err != nil {
		return stream.Reply{}, err
	}
	q, err := c.query("subject")
	if err != nil {
		return stream.Reply{}, err
	}
	subject := identity.Subject(q.Get("subject"))
	if err := s.Identities.Book.Unlink(ctx, c.Principal.Account, subject); err != nil {
		return stream.Reply{}, identityFault(err)
	}
	if a := s.Identities.Agents; a != nil && a.Realm().Has(subject) {
		a.Forget(c.Principal.Account)
	}
	return notStored(c, struct {
		Subject identity.Subject `json:"subject"`
		Deleted bool             `json:"deleted"`
	}{subject, true})
}

// identityFault returns the client's fault for an error about links.
func identityFault(err error) error {
	switch {
	case errors.Is(err, identity.ErrUnknown):
		return fault.New(fault.NotFound, "this account has no such link", err)
	case errors.Is(err, identity.ErrFull):
		return fault.New(fault.InvalidRequest, err.Error(), err)
	case errors.Is(err, identity.ErrUsed):
		return fault.New(fault.Conflict, "this proof of control was used before: sign a new one", err)
	case errors.Is(err, identity.ErrNoAgent):
		return fault.New(fault.NotFound, err.Error(), err)
	case errors.Is(err, identity.ErrWindow):
		return fault.New(fault.InvalidRequest, err.Error(), err)
	case errors.Is(err, identity.ErrHolder), errors.Is(err, identity.ErrSignature), errors.Is(err, identity.ErrUndeployed):
		return fault.New(fault.KeyRestricted, err.Error(), err)
	}
	f := fault.New(fault.Unavailable, "the identity cannot be verified at the moment: nothing was changed, and the same request can be sent again", err)
	f.RetryAfter = retryIdentity
	return f
}

// retryIdentity is the Retry-After of a request that could not be verified.
const retryIdentity = 5 * time.Second

// notStored returns an answer that must not be cached.
func notStored(c *Caller, v any) (stream.Reply, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return stream.Reply{}, err
	}
	r := c.Head.JSON(body)
	r.Header = append(r.Header, header.Field{Name: "cache-control", Value: "no-store"})
	return r, nil
}

// has reports whether a document has a member that is not null.
func has(doc *jsonx.Doc, name string) bool { return !doc.Get(name).IsNull() }
