package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/pay"
)

// Sessions stores the sessions of delegations, which hold their budgets. Safe for concurrent use.
type Sessions interface {
	// Begun reports whether a session with this id exists.
	Begun(ctx context.Context, id string) (bool, error)
	// Begin creates a session without a key.
	Begin(ctx context.Context, s DelegatedSession) error
}

// DelegatedSession is the session of a delegation: its requests spend at most its budget, until it expires.
type DelegatedSession struct {
	ID      string
	Account policy.Account
	Agent   string // agent id
	Models  []string
	Budget  policy.Micro
	Expires time.Time
}

// Delegates authenticates requests of delegates, by a delegation that the agent's owner or wallet signed and a proof that the delegate signed for
// this request. A delegation is verified once, and again every minute if a contract wallet issued it; whether its issuer still acts for the agent is
// looked up for each request in the state that Agents reads. Safe for concurrent use.
type Delegates struct {
	agents      *Agents
	sessions    Sessions
	started     time.Time
	verified    *lru.Cache[[sha256.Size]byte, *delegated]
	unconfirmed *lru.Cache[pay.Word, time.Time] // last time that the wallet of an agent did not confirm a signature
	proofs      proofs
	creating    sync.Mutex // creates one session at a time
}

var (
	_ auth.Verifier  = (*Delegates)(nil)
	_ auth.Immediate = (*Delegates)(nil)
)

// delegated is a verified delegation. Immutable, except begun.
type delegated struct {
	*Delegation

	digest   pay.Word
	contract bool // its issuer is a contract wallet
	at       time.Time
	begun    atomic.Bool // its session exists
}

// Limits of delegations.
const (
	maxVerified   = 4096
	proofWindow   = time.Minute // maximum difference of a proof's time from now
	confirmEvery  = time.Minute
	refusalPause  = time.Second // pause before the wallet of an agent is asked again after a refusal
	maxProofs     = 1 << 16     // per generation
	sessionPrefix = "ses_"
	sessionBytes  = 15
)

// NewDelegates returns the verifier.
func NewDelegates(a *Agents, s Sessions) *Delegates {
	verified, _ := lru.New[[sha256.Size]byte, *delegated](maxVerified) // fails for sizes below 1 only
	asked, _ := lru.New[pay.Word, time.Time](maxVerified)
	return &Delegates{agents: a, sessions: s, started: a.o.Now(), verified: verified, unconfirmed: asked}
}

// Immediate implements auth.Immediate.
func (*Delegates) Immediate(r auth.Request) bool { return !r.Header.Has(HeaderDelegation) }

func refuseDelegation(k fault.Kind, format string, args ...any) error {
	return fault.Newf(k, "the delegation is not accepted: "+format, args...)
}

// Verify implements auth.Verifier.
func (v *Delegates) Verify(ctx context.Context, r auth.Request) (p policy.Principal, ok bool, err error) {
	text := r.Header.Get(HeaderDelegation)
	if text == "" {
		return p, false, nil
	}
	d, err := v.find(ctx, text)
	if err != nil {
		return p, false, err
	}
	body, err := v.prove(d, r)
	if err != nil {
		return p, false, err
	}
	_, p, ok, err = v.agents.book.Owner(ctx, v.agents.o.Realm.Subject(d.Agent))
	switch {
	case err != nil:
		return policy.Principal{}, false, fault.New(fault.Unavailable, "the account of this agent cannot be read at the moment", err)
	case !ok:
		return policy.Principal{}, false, refuseDelegation(fault.KeyRestricted, "the agent is not linked to an account")
	}
	if err := auth.CheckUse(&p, r); err != nil {
		return policy.Principal{}, false, err
	}
	if p.Session, err = v.begin(ctx, d, p.Account); err != nil {
		return policy.Principal{}, false, err
	}
	p.Body = &body
	return p, true, nil
}

// find returns the delegation of a header, if it holds now.
func (v *Delegates) find(ctx context.Context, text string) (*delegated, error) {
	sum, now := sha256.Sum256([]byte(text)), v.agents.o.Now()
	d, known := v.verified.Get(sum)
	if !known || d.contract && now.Sub(d.at) >= confirmEvery {
		fresh, err := v.verify(ctx, text)
		if err != nil {
			v.verified.Remove(sum)
			return nil, err
		}
		if known {
			fresh.begun.Store(d.begun.Load())
		}
		d = fresh
		v.verified.Add(sum, d)
	}
	return d, v.holds(d.Delegation, now)
}

// holds checks that a delegation holds now: its time, and that its issuer acts for a linked agent.
func (v *Delegates) holds(d *Delegation, now time.Time) error {
	switch s := v.agents.ByID(d.Agent); {
	case now.Unix() < d.ValidAfter:
		return refuseDelegation(fault.InvalidAPIKey, "it is not valid yet")
	case now.Unix() >= d.ValidBefore:
		return refuseDelegation(fault.InvalidAPIKey, "it has expired")
	case s == nil:
		return refuseDelegation(fault.KeyRestricted, "the agent is not linked to an account, or could not be read for some minutes: link it by POST /v1/identity/link")
	case !s.Agent.SpokenForBy(d.Issuer):
		return refuseDelegation(fault.KeyRestricted, "its issuer is neither the agent's owner nor its wallet")
	}
	return nil
}

// verify reads and verifies a delegation. It queries the chain only for a linked agent's own wallet.
func (v *Delegates) verify(ctx context.Context, text string) (*delegated, error) {
	r, now := &v.agents.o.Realm, v.agents.o.Now()
	d, signature, err := parseDelegation(text)
	if err != nil {
		return nil, refuseDelegation(fault.InvalidAPIKey, "%s", err)
	}
	if d.Audience != r.Audience {
		return nil, refuseDelegation(fault.InvalidAPIKey, "it is for another gateway")
	}
	if err := v.holds(d, now); err != nil {
		return nil, err
	}
	out := &delegated{Delegation: d, digest: d.digest(r), at: now}
	if who, ok := v.agents.o.Chain.Recover(out.digest, signature); ok && who == d.Issuer {
		return out, nil
	}
	out.contract = true
	if last, ok := v.unconfirmed.Get(d.Agent); ok && now.Sub(last) < refusalPause {
		f := fault.Newf(fault.Overloaded, "the agent's wallet confirmed nothing a moment ago: it is asked once a second")
		f.RetryAfter = refusalPause
		return nil, f
	}
	return out, v.confirm(ctx, out, signature)
}

// confirm asks the issuer's contract to confirm the signature.
func (v *Delegates) confirm(ctx context.Context, d *delegated, signature []byte) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	done, err := v.agents.enter(ctx)
	if err == nil {
		defer done()
		err = v.agents.verify(ctx, d.Issuer, d.digest, signature)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrSignature), errors.Is(err, ErrUndeployed):
		v.unconfirmed.Add(d.Agent, v.agents.o.Now())
		return refuseDelegation(fault.InvalidAPIKey, "%s", err)
	}
	f := fault.New(fault.Unavailable, "the delegation cannot be verified at the moment", err)
	f.RetryAfter = 2 * time.Second
	return f
}

// prove checks that the delegate signed this request, now, and that the proof was not used before. It returns the digest that the body must have.
func (v *Delegates) prove(d *delegated, r auth.Request) (body [32]byte, err error) {
	p, signature, err := parseProof(r.Header.Get(HeaderProof))
	if err != nil {
		return body, fault.Newf(fault.InvalidAPIKey, "the proof of the request (X-Bardo-Proof) cannot be read: %s", err)
	}
	now, at := v.agents.o.Now(), time.Unix(p.Time, 0)
	switch off := now.Sub(at); {
	case off > proofWindow || off < -proofWindow:
		return body, fault.Newf(fault.InvalidAPIKey, "the proof of the request is too old, or its time is in the future: it may differ from the gateway's by %s", proofWindow)
	case at.Before(v.started.Truncate(time.Second)): // it may have been used before the gateway started
		return body, fault.Newf(fault.InvalidAPIKey, "the proof of the request was made before the gateway started: sign the request again")
	}
	who, ok := v.agents.o.Chain.Recover(p.digest(&v.agents.o.Realm, d.digest, r.Method, r.Path), signature)
	if !ok || who != d.Delegate {
		return body, fault.Newf(fault.InvalidAPIKey, "the proof of the request is not signed by the delegate, for this method, path, body and time, with a low s")
	}
	return p.Body, v.proofs.use(now, d.digest, p.Nonce)
}

// begin creates the delegation's session, only once: a session that was deleted does not come back with a new budget.
func (v *Delegates) begin(ctx context.Context, d *delegated, account policy.Account) (id string, err error) {
	id = sessionPrefix + hex.EncodeToString(d.digest[:sessionBytes])
	if d.begun.Load() {
		return id, nil
	}
	v.creating.Lock()
	defer v.creating.Unlock()
	there, err := v.sessions.Begun(ctx, id)
	if err == nil && !there {
		expires := time.Unix(d.ValidBefore, 0)
		if err = v.agents.book.Spend(ctx, d.digest[:], expires, v.agents.o.Now()); err == nil {
			err = v.sessions.Begin(ctx, DelegatedSession{id, account, AgentIDText(d.Agent), d.Models, d.MaxSpend, expires})
		}
	}
	switch {
	case errors.Is(err, ErrUsed):
		return "", refuseDelegation(fault.KeyRestricted, "its session is over, or is another gateway's: sign a new one")
	case err != nil:
		return "", fault.New(fault.Unavailable, "the delegation's session cannot be opened at the moment", err)
	}
	d.begun.Store(true)
	return id, nil
}

// proofs records used proofs, for as long as they could be used again. The zero value works. Safe for concurrent use.
type proofs struct {
	mu        sync.Mutex
	turned    time.Time
	now, past map[[sha256.Size]byte]struct{}
}

// use records a proof. The error is a fault: it was used before, or there is no room.
func (p *proofs) use(now time.Time, delegation, nonce pay.Word) error {
	id := sha256.Sum256(append(append([]byte(nil), delegation[:]...), nonce[:]...))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil || now.Sub(p.turned) > 2*proofWindow {
		p.past, p.now, p.turned = p.now, map[[sha256.Size]byte]struct{}{}, now
	}
	_, used := p.now[id]
	_, usedBefore := p.past[id]
	switch {
	case used || usedBefore:
		return fault.Newf(fault.InvalidAPIKey, "the proof of the request was used before: sign each request anew")
	case len(p.now) >= maxProofs:
		f := fault.Newf(fault.Overloaded, "too many requests of delegates")
		f.RetryAfter = 2 * proofWindow
		return f
	}
	p.now[id] = struct{}{}
	return nil
}

// BodyFault returns the fault of a body that its proof does not cover; nil if it does.
func BodyFault(p *policy.Principal, body []byte) error {
	if p.Body == nil || sha256.Sum256(body) == *p.Body {
		return nil
	}
	return fault.Newf(fault.InvalidAPIKey, "the proof of the request is about another body")
}
