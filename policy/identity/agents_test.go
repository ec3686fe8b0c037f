package identity_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/pay"
)

var (
	owner    = pay.Address{1}
	wallet   = pay.Address{2}
	contract = pay.Address{3}
	stranger = pay.Address{9}
	realm    = identity.Realm{Network: pay.Network{ID: 84532}, Registry: pay.Address{0xaa}, Audience: "https://gw.example"}
)

// chain is a registry in memory. A signature is the address that made it and the digest; one of contract is confirmed by what follows it.
type chain struct {
	mu      sync.Mutex
	agents  map[pay.Word]identity.Agent
	scores  map[pay.Word]int64
	err     error
	reads   int
	asked   int
	refuses bool          // contracts confirm nothing
	gate    chan struct{} // reads wait for it, if it is set
}

func (c *chain) Check(context.Context) error { return nil }

func (c *chain) Agent(ctx context.Context, id pay.Word) (identity.Agent, error) {
	if c.gate != nil {
		select {
		case <-c.gate:
		case <-ctx.Done():
			return identity.Agent{}, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	a, ok := c.agents[id]
	if c.err == nil && !ok {
		return a, identity.ErrNoAgent
	}
	return a, c.err
}

func (c *chain) Score(_ context.Context, id pay.Word) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scores[id], c.err
}

func (*chain) Recover(d pay.Word, s []byte) (who pay.Address, ok bool) {
	if len(s) != 52 || !bytes.Equal(s[20:], d[:]) {
		return who, false
	}
	return pay.Address(s[:20]), true
}

func (c *chain) Confirms(_ context.Context, of pay.Address, d pay.Word, s []byte) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return of == contract && !c.refuses && string(s) == "contract"+string(d[:]), c.err
}

func (c *chain) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func sign(who pay.Address, d pay.Word) []byte { return append(append([]byte(nil), who[:]...), d[:]...) }

// lab has agents on a chain: agent 0 with owner and wallet, agent 1 owned by a contract.
type lab struct {
	*bench
	*identity.Agents

	chain chain
	ended []error
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{bench: newBench(t)}
	l.chain.agents = map[pay.Word]identity.Agent{id(0): {Owner: owner, Wallet: wallet}, id(1): {Owner: contract}}
	l.chain.scores = map[pay.Word]int64{id(0): 600}
	l.Agents = l.agents()
	return l
}

func (l *lab) agents() *identity.Agents {
	return identity.NewAgents(l.Book, identity.AgentOptions{
		Realm: realm, Chain: &l.chain, Refresh: 30 * time.Second, LinkTTL: time.Hour, Now: func() time.Time { return l.now },
		Ended: func(_ identity.Link, why error) { l.ended = append(l.ended, why) },
	})
}

func id(n byte) (w pay.Word) {
	w[31] = n
	return w
}

// claim is a claim for an account, by a holder.
func (l *lab) claim(t *testing.T, agent byte, holder pay.Address, account policy.Account) *identity.LinkClaim {
	t.Helper()
	c, err := l.NewClaim(t.Context(), id(agent), holder, account)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mustLink links agent 0.
func (l *lab) mustLink(t *testing.T, holder pay.Address, account policy.Account) {
	t.Helper()
	c := l.claim(t, 0, holder, account)
	if _, err := l.Link(t.Context(), c, sign(holder, c.Digest(&realm))); err != nil {
		t.Fatal(err)
	}
}

func TestAnOwnerOrAWalletLinksItsAgent(t *testing.T) {
	l := newLab(t)
	for _, holder := range []pay.Address{owner, wallet} {
		l.mustLink(t, holder, "a")
		if s := l.Of("a"); s == nil || s.Score != 600 || s.Link.Holder != holder.String() || l.Spread("a") != 12 {
			t.Errorf("%s: %+v, spread %d", holder, s, l.Spread("a"))
		}
	}
	c := l.claim(t, 1, pay.Address{}, "b") // by its owner, a contract
	d := c.Digest(&realm)
	if _, err := l.Link(t.Context(), c, append([]byte("contract"), d[:]...)); err != nil {
		t.Error(err)
	}
	if l.Spread("b") != 0 || l.Spread("") != 0 || l.Spread("nobody") != 0 {
		t.Error("accounts without reputation have a spread of their own")
	}
}

// TestWhoSpeaksForAnAgent: its owner and its wallet; nobody for an unknown agent. Others get no claim to sign.
func TestWhoSpeaksForAnAgent(t *testing.T) {
	for _, c := range []struct {
		agent identity.Agent
		who   pay.Address
		want  bool
	}{
		{identity.Agent{Owner: owner, Wallet: wallet}, owner, true},
		{identity.Agent{Owner: owner, Wallet: wallet}, wallet, true},
		{identity.Agent{Owner: owner, Wallet: wallet}, stranger, false},
		{identity.Agent{Owner: owner}, pay.Address{}, false},
		{identity.Agent{}, pay.Address{}, false},
	} {
		if got := c.agent.SpokenForBy(c.who); got != c.want {
			t.Errorf("%s for %+v: %v", c.who, c.agent, got)
		}
	}
	if c, err := newLab(t).NewClaim(t.Context(), id(0), stranger, "a"); !errors.Is(err, identity.ErrHolder) {
		t.Errorf("a claim for a stranger: %+v, %v", c, err)
	}
}

// Each claim below is wrong in one thing, and links nothing.
func TestClaimsThatAreWrongInOneThing(t *testing.T) {
	l := newLab(t)
	good := func() *identity.LinkClaim { return l.claim(t, 0, owner, "a") }
	for _, c := range []struct {
		name   string
		change func(c *identity.LinkClaim) (signature []byte)
		want   error
	}{
		{"signed by a stranger", func(c *identity.LinkClaim) []byte { return sign(stranger, c.Digest(&realm)) }, identity.ErrSignature},
		{"a stranger's claim", func(c *identity.LinkClaim) []byte {
			c.Holder = stranger
			return sign(stranger, c.Digest(&realm))
		}, identity.ErrHolder},
		{"nobody's claim", func(c *identity.LinkClaim) []byte {
			c.Holder = pay.Address{}
			return sign(pay.Address{}, c.Digest(&realm))
		}, identity.ErrHolder},
		{"another account", func(c *identity.LinkClaim) []byte {
			s := sign(owner, c.Digest(&realm))
			c.Account = "b"
			return s
		}, identity.ErrSignature},
		{"another agent", func(c *identity.LinkClaim) []byte {
			s := sign(owner, c.Digest(&realm))
			c.Agent = id(1)
			return s
		}, identity.ErrHolder},
		{"another nonce", func(c *identity.LinkClaim) []byte {
			s := sign(owner, c.Digest(&realm))
			c.Nonce[0]++
			return s
		}, identity.ErrSignature},
		{"another expiry", func(c *identity.LinkClaim) []byte {
			s := sign(owner, c.Digest(&realm))
			c.Expires--
			return s
		}, identity.ErrSignature},
		{"the wallet's signature of the owner's claim", func(c *identity.LinkClaim) []byte { return sign(wallet, c.Digest(&realm)) }, identity.ErrSignature},
		{"another gateway", func(c *identity.LinkClaim) []byte {
			r := realm
			r.Audience = "https://other.example"
			return sign(owner, c.Digest(&r))
		}, identity.ErrSignature},
		{"another chain", func(c *identity.LinkClaim) []byte {
			r := realm
			r.Network.ID = 8453
			return sign(owner, c.Digest(&r))
		}, identity.ErrSignature},
		{"another registry", func(c *identity.LinkClaim) []byte {
			r := realm
			r.Registry[0]++
			return sign(owner, c.Digest(&r))
		}, identity.ErrSignature},
		{"expired", func(c *identity.LinkClaim) []byte {
			c.Expires = l.now.Unix()
			return sign(owner, c.Digest(&realm))
		}, identity.ErrWindow},
		{"lasting", func(c *identity.LinkClaim) []byte { c.Expires += 3600; return sign(owner, c.Digest(&realm)) }, identity.ErrWindow},
		{"an agent that there is not", func(c *identity.LinkClaim) []byte { c.Agent = id(7); return sign(owner, c.Digest(&realm)) }, identity.ErrNoAgent},
		{"a wallet that is not deployed", func(*identity.LinkClaim) []byte {
			return []byte(strings.Repeat("x", 32) + strings.Repeat("\x64\x92", 16))
		}, identity.ErrUndeployed},
		{"no signature", func(*identity.LinkClaim) []byte { return nil }, identity.ErrSignature},
		{"a long signature", func(*identity.LinkClaim) []byte { return make([]byte, identity.MaxSignature+1) }, identity.ErrSignature},
	} {
		claim := good()
		signature := c.change(claim)
		if _, err := l.Link(t.Context(), claim, signature); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if l.Of("a") != nil || l.Of("b") != nil {
		t.Error("one of them has linked an agent")
	}
}

// TestPitfall23AClaimIsUsedOnce: linking uses its nonce.
func TestPitfall23AClaimIsUsedOnce(t *testing.T) {
	l := newLab(t)
	c := l.claim(t, 0, owner, "a")
	s := sign(owner, c.Digest(&realm))
	if _, err := l.Link(t.Context(), c, s); err != nil {
		t.Fatal(err)
	}
	if err := l.Unlink(t.Context(), "a", realm.Subject(id(0))); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Link(t.Context(), c, s); !errors.Is(err, identity.ErrUsed) {
		t.Errorf("the same claim, after its link was ended: %v", err)
	}
}

func TestAnAgentHasOneAccountAndAnAccountOneAgent(t *testing.T) {
	l := newLab(t)
	l.mustLink(t, owner, "a")
	l.mustLink(t, owner, "b")
	if l.Of("a") != nil || l.Of("b") == nil {
		t.Error("the agent is at the account that it was linked to before")
	}
	c := l.claim(t, 1, contract, "b")
	d := c.Digest(&realm)
	if _, err := l.Link(t.Context(), c, append([]byte("contract"), d[:]...)); err != nil {
		t.Fatal(err)
	}
	if s := l.Of("b"); s == nil || s.ID != id(1) {
		t.Errorf("%+v", s)
	}
	if all, err := l.Links(t.Context(), "b"); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// A link ends permanently when its holder no longer acts for the agent.
func TestATransferEndsTheLink(t *testing.T) {
	for name, change := range map[string]func(c *chain){
		"it was transferred":        func(c *chain) { c.agents[id(0)] = identity.Agent{Owner: stranger} },
		"it was burnt":              func(c *chain) { delete(c.agents, id(0)) },
		"its wallet is another one": func(c *chain) { c.agents[id(0)] = identity.Agent{Owner: owner, Wallet: stranger} },
	} {
		l := newLab(t)
		l.mustLink(t, wallet, "a")
		if err := l.Refresh(t.Context()); err != nil || l.Of("a") == nil {
			t.Fatalf("%s: before: %v", name, err)
		}
		before := l.chain.agents[id(0)]
		l.chain.set(func() { change(&l.chain) })
		_ = l.Refresh(t.Context())
		if l.Of("a") != nil || l.Spread("a") != 0 || len(l.ended) != 1 {
			t.Errorf("%s: %+v, ended %v", name, l.Of("a"), l.ended)
		}
		l.chain.set(func() { l.chain.agents[id(0)] = before })
		if err := l.Refresh(t.Context()); err != nil || l.Of("a") != nil {
			t.Errorf("%s: the link is back: %v", name, err)
		}
	}
}

func TestAnAgentsLinkExpires(t *testing.T) {
	l := newLab(t)
	l.mustLink(t, owner, "a")
	for range 4 {
		l.now = l.now.Add(15 * time.Minute)
		if err := l.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if l.Of("a") != nil || l.Spread("a") != 0 {
		t.Error("it has not expired")
	}
}

// Requests never read the chain; outdated state gives no discount.
func TestWhatCannotBeReadStaysForAWhile(t *testing.T) {
	l := newLab(t)
	l.mustLink(t, owner, "a")
	reads := l.chain.reads
	for range 100 {
		l.Spread("a")
	}
	if l.chain.reads != reads {
		t.Error("a request reads the chain")
	}
	l.chain.set(func() { l.chain.err = errors.New("down") })
	l.now = l.now.Add(4 * time.Minute)
	if err := l.Refresh(t.Context()); err == nil || l.Spread("a") != 12 {
		t.Errorf("after some minutes: %v, spread %d", err, l.Spread("a"))
	}
	l.now = l.now.Add(2 * time.Minute)
	if err := l.Refresh(t.Context()); err == nil || l.Spread("a") != 0 {
		t.Errorf("after many: %v, spread %d", err, l.Spread("a"))
	}
	l.chain.set(func() { l.chain.err = nil })
	if err := l.Refresh(t.Context()); err != nil || l.Spread("a") != 12 || len(l.ended) != 0 {
		t.Errorf("when it can be read again: %v, spread %d, ended %v", err, l.Spread("a"), l.ended)
	}
}

func TestLinkedAgentsAreReadAfterAStart(t *testing.T) {
	l := newLab(t)
	l.mustLink(t, owner, "a")
	again := l.agents()
	if again.Of("a") != nil {
		t.Error("it is known before it was read")
	}
	if err := again.Refresh(t.Context()); err != nil || again.Spread("a") != 12 {
		t.Errorf("%v, spread %d", err, again.Spread("a"))
	}
	again.Forget("a")
	if again.Of("a") != nil {
		t.Error("it was not forgotten")
	}
}

func TestFewClaimsAreVerifiedAtATime(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		l.chain.gate = make(chan struct{})
		agents := identity.NewAgents(l.Book, identity.AgentOptions{Realm: realm, Chain: &l.chain, Refresh: time.Minute, LinkTTL: time.Hour, Now: func() time.Time { return l.now }})
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { _, _ = agents.NewClaim(t.Context(), id(0), owner, "a") })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := agents.NewClaim(ctx, id(0), owner, "a"); !errors.Is(err, identity.ErrBusy) {
			t.Errorf("the ninth: %v", err)
		}
		close(l.chain.gate)
		all.Wait()
	})
}

func TestSpreadsOfReputation(t *testing.T) {
	for score, want := range map[int64]int{-5: 0, 0: 0, 49: 0, 50: 18, 199: 18, 200: 15, 499: 15, 500: 12, 999: 12, 1000: 8, 1 << 40: 8} {
		if pct, _ := identity.ReputationSpread(score); pct != want {
			t.Errorf("score %d: %d, want %d", score, pct, want)
		}
	}
}

func TestAgentIDs(t *testing.T) {
	const most = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	for _, s := range []string{"0", "7", "1234567890", most} {
		if w, err := identity.ParseAgentID(s); err != nil || identity.AgentIDText(w) != s {
			t.Errorf("%s: %s, %v", s, identity.AgentIDText(w), err)
		}
	}
	for _, s := range []string{"", "-1", "+1", "01", "0x7", "1e3", " 7", "7.0", most[:77] + "6", most + "0", "١"} {
		if w, err := identity.ParseAgentID(s); err == nil {
			t.Errorf("%q is %s", s, w)
		}
	}
}

func FuzzAgentID(f *testing.F) {
	f.Add("0")
	f.Add("115792089237316195423570985008687907853269984665640564039457584007913129639936")
	f.Fuzz(func(t *testing.T, s string) {
		if w, err := identity.ParseAgentID(s); err == nil && identity.AgentIDText(w) != s {
			t.Errorf("%q is %s", s, identity.AgentIDText(w))
		}
	})
}
