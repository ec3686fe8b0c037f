package identity

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
)

// AgentOptions configure the verification of agents. All but Now, Ended and Failed are required.
type AgentOptions struct {
	Realm   Realm
	Chain   Chain
	Refresh time.Duration // how often the linked agents are read
	LinkTTL time.Duration // how long a link lasts
	Now     func() time.Time
	Ended   func(l Link, why error) // called when a link ends because its holder no longer acts for the agent
	Failed  func(err error)         // called when agents could not be read
}

// Agents links agents to accounts. It reads linked agents in the background, so that no request waits for the chain. Safe for concurrent use.
type Agents struct {
	book  *Book
	o     AgentOptions
	slots chan struct{} // limits callers' concurrent requests to the chain
	swap  sync.Mutex    // guards changes of known
	known atomic.Pointer[knownAgents]
}

// knownAgents is the known state of the linked agents. Immutable.
type knownAgents struct {
	agents   map[pay.Word]*AgentState
	accounts map[policy.Account]*AgentState
}

// AgentState is the last known state of a linked agent. Immutable.
type AgentState struct {
	Link  Link
	ID    pay.Word
	Agent Agent
	Score int64
	At    time.Time // time of the reading
}

// Limits of callers' claims, and of what is read.
const (
	MaxSignature = 4096 // bytes
	claimTime    = 10 * time.Minute
	maxAgents    = 10_000 // linked agents
	maxQueries   = 8
	askTime      = 15 * time.Second
	staleAfter   = 10 // after so many failed refreshes the last reading is not used any more
)

// Errors of claims.
var (
	// ErrHolder means that an address does not act for an agent.
	ErrHolder = errors.New("the address is neither the agent's owner nor its wallet")
	// ErrSignature means that a signature is not the holder's.
	ErrSignature = errors.New("the signature is not the holder's, of this message, with a low s")
	// ErrUndeployed means that a signature is that of a wallet that is not deployed.
	ErrUndeployed = errors.New("signatures of wallets that are not deployed (ERC-6492) are not taken: deploy the wallet first")
	// ErrWindow means that a claim has expired, or is valid for too long.
	ErrWindow = fmt.Errorf("the claim has expired, or expires more than %s from now", claimTime)
	// ErrBusy means that too many claims are being verified.
	ErrBusy = errors.New("too many claims are being verified")
)

// NewAgents returns the links of agents. Run keeps them current.
func NewAgents(b *Book, o AgentOptions) *Agents {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Ended == nil {
		o.Ended = func(Link, error) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	a := &Agents{book: b, o: o, slots: make(chan struct{}, maxQueries)}
	a.known.Store(newKnownAgents())
	return a
}

// Realm returns the registry and audience of the agents.
func (a *Agents) Realm() *Realm { return &a.o.Realm }

// NewClaim returns a claim for an account, to be signed by the holder: the agent's owner, if holder is zero. Without an account, it is for the
// holder's own, as a wallet that pays for single requests: its signature proves control of both. The error is ErrNoAgent, ErrHolder, ErrBusy or the
// node's.
func (a *Agents) NewClaim(ctx context.Context, id pay.Word, holder pay.Address, account policy.Account) (*LinkClaim, error) {
	done, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	agent, err := a.o.Chain.Agent(ctx, id)
	if err != nil {
		return nil, err
	}
	if holder == (pay.Address{}) {
		holder = agent.Owner
	}
	if !agent.SpokenForBy(holder) {
		return nil, ErrHolder
	}
	if account == "" {
		account = pay.Account(holder)
	}
	c := &LinkClaim{Agent: id, Holder: holder, Account: string(account), Expires: a.o.Now().Add(claimTime).Unix()}
	_, _ = rand.Read(c.Nonce[:]) // never fails (crypto/rand)
	return c, nil
}

// enter waits for a free slot to verify a claim.
func (a *Agents) enter(ctx context.Context) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	select {
	case a.slots <- struct{}{}:
		return func() { <-a.slots }, nil
	case <-ctx.Done():
		return nil, ErrBusy
	}
}

// Link links an agent to the claim's account, if its holder signed the claim. The account's other agents are unlinked. The error is ErrNoAgent,
// ErrHolder, ErrSignature, ErrUndeployed, ErrWindow, ErrUsed, ErrFull, ErrBusy, or that of the store or the node.
func (a *Agents) Link(ctx context.Context, c *LinkClaim, signature []byte) (*AgentState, error) {
	until, now := time.Unix(c.Expires, 0), a.o.Now()
	if c.Expires <= 0 || !now.Before(until) || until.Sub(now) > claimTime {
		return nil, ErrWindow
	}
	done, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := a.o.Chain.Check(ctx); err != nil {
		return nil, err
	}
	s, err := a.read(ctx, c.Agent)
	if err != nil {
		return nil, err
	}
	if !s.Agent.SpokenForBy(c.Holder) {
		return nil, ErrHolder
	}
	if err := a.verify(ctx, c.Holder, c.Digest(&a.o.Realm), signature); err != nil {
		return nil, err
	}
	s.Link = Link{Subject: a.o.Realm.Subject(c.Agent), Account: policy.Account(c.Account), Holder: c.Holder.String(), At: now, Expires: now.Add(a.o.LinkTTL)}
	if err := a.book.linkAgent(ctx, s.Link, c.Nonce[:], until, a.o.Realm.prefix()); err != nil {
		return nil, err
	}
	a.add(s)
	return s, nil
}

// undeployed is the suffix of signatures of wallets that are not deployed (ERC-6492).
var undeployed = bytes.Repeat([]byte{0x64, 0x92}, 16)

// verify checks that a signature is the holder's: of an account without code, or confirmed by its contract.
func (a *Agents) verify(ctx context.Context, holder pay.Address, digest pay.Word, signature []byte) error {
	if len(signature) == 0 || len(signature) > MaxSignature {
		return ErrSignature
	}
	if bytes.HasSuffix(signature, undeployed) {
		return ErrUndeployed
	}
	if who, ok := a.o.Chain.Recover(digest, signature); ok && who == holder {
		return nil
	}
	yes, err := a.o.Chain.Confirms(ctx, holder, digest, signature)
	if err == nil && !yes {
		err = ErrSignature
	}
	return err
}

// read reads an agent and its score.
func (a *Agents) read(ctx context.Context, id pay.Word) (s *AgentState, err error) {
	s = &AgentState{ID: id, At: a.o.Now()}
	if s.Agent, err = a.o.Chain.Agent(ctx, id); err != nil {
		return nil, err
	}
	s.Score, err = a.o.Chain.Score(ctx, id)
	return s, err
}

// add adds an agent that was just linked to the known ones.
func (a *Agents) add(s *AgentState) {
	a.swap.Lock()
	defer a.swap.Unlock()
	next := a.without(func(old *AgentState) bool { return old.ID == s.ID || old.Link.Account == s.Link.Account })
	next.put(s)
	a.known.Store(next)
}

// Forget drops the known state of an account's agent.
func (a *Agents) Forget(account policy.Account) {
	a.swap.Lock()
	defer a.swap.Unlock()
	a.known.Store(a.without(func(old *AgentState) bool { return old.Link.Account == account }))
}

// without returns the known agents except those that drop selects. a.swap is locked.
func (a *Agents) without(drop func(*AgentState) bool) *knownAgents {
	next := newKnownAgents()
	for _, s := range a.known.Load().agents {
		if !drop(s) {
			next.put(s)
		}
	}
	return next
}

// replace replaces the known agents by what was read since a time. Agents that were linked since then stay.
func (a *Agents) replace(next *knownAgents, since time.Time) {
	a.swap.Lock()
	defer a.swap.Unlock()
	for _, s := range a.known.Load().agents {
		if s.Link.At.After(since) {
			next.put(s)
		}
	}
	a.known.Store(next)
}

func newKnownAgents() *knownAgents {
	return &knownAgents{agents: map[pay.Word]*AgentState{}, accounts: make(map[policy.Account]*AgentState)}
}

func (s *knownAgents) put(n *AgentState) {
	s.agents[n.ID], s.accounts[n.Link.Account] = n, n
}

// Of returns the known state of the agent linked to an account; nil if there is none, or the state is too old.
func (a *Agents) Of(account policy.Account) *AgentState {
	return a.current(a.known.Load().accounts[account])
}

// ByID returns the known state of a linked agent, like Of.
func (a *Agents) ByID(id pay.Word) *AgentState { return a.current(a.known.Load().agents[id]) }

func (a *Agents) current(s *AgentState) *AgentState {
	now := a.o.Now()
	if s == nil || s.Link.Expired(now) || now.Sub(s.At) > staleAfter*a.o.Refresh {
		return nil
	}
	return s
}

// Spread returns the percentage on a provider's cost that an account's reputation earns it; 0: none. It is a lookup in memory.
func (a *Agents) Spread(account policy.Account) int {
	s := a.Of(account)
	if s == nil {
		return 0
	}
	pct, _ := ReputationSpread(s.Score)
	return pct
}

// Run reads the linked agents until ctx is done.
func (a *Agents) Run(ctx context.Context) {
	tick := time.NewTicker(a.o.Refresh)
	defer tick.Stop()
	for {
		if err := a.Refresh(ctx); err != nil && ctx.Err() == nil {
			a.o.Failed(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Refresh reads all linked agents. It ends links whose holder no longer acts for the agent. Agents that cannot be read keep their last known state.
func (a *Agents) Refresh(ctx context.Context) error {
	started := a.o.Now()
	links, err := a.book.all(ctx, a.o.Realm.prefix(), maxAgents)
	if err != nil {
		return err
	}
	if len(links) > 0 {
		if err := a.o.Chain.Check(ctx); err != nil {
			return err
		}
	}
	before, next := a.known.Load().agents, newKnownAgents()
	var failed []error
	for _, l := range links {
		id, err := ParseAgentID(string(l.Subject[len(a.o.Realm.prefix()):]))
		if err != nil || l.Expired(a.o.Now()) {
			continue
		}
		s, err := a.refreshed(ctx, l, id)
		switch {
		case err == nil:
			next.put(s)
		case errors.Is(err, ErrNoAgent), errors.Is(err, ErrHolder):
			failed = append(failed, a.end(ctx, l, err))
		default:
			failed = append(failed, err)
			if old := before[id]; old != nil && old.Link == l {
				next.put(old)
			}
		}
	}
	a.replace(next, started)
	return errors.Join(failed...)
}

// refreshed reads a linked agent. The error is ErrHolder if the link's holder no longer acts for it.
func (a *Agents) refreshed(ctx context.Context, l Link, id pay.Word) (*AgentState, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s, err := a.read(ctx, id)
	if err != nil {
		return nil, err
	}
	holder, err := pay.ParseAddress(l.Holder)
	if err != nil || !s.Agent.SpokenForBy(holder) {
		return nil, ErrHolder
	}
	s.Link = l
	return s, nil
}

// end ends a link because of a change on the chain.
func (a *Agents) end(ctx context.Context, l Link, why error) error {
	if err := a.book.Unlink(ctx, l.Account, l.Subject); err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	a.o.Ended(l, why)
	return nil
}
