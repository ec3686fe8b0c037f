package agents

import (
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"bardo.money/gateway/e2e/anvil"
	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

const body = `{"model":"gpt-4.1-mini","max_tokens":50,"messages":[{"role":"user","content":"Hello"}]}`

// lab is a gateway that reads the registries of a chain.
type lab struct {
	*gateway.Gateway

	chain *chain
}

// start runs a gateway. billing are its prices, more are further members of auth.erc8004.
func start(t *testing.T, billing, more string) *lab {
	t.Helper()
	l := &lab{chain: startChain(t)}
	l.Gateway = gateway.Run(t, gateway.Options{
		Providers: []gateway.Provider{{ID: "openai", Fake: fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-agents"})}},
		Config: fmt.Sprintf(`limits: {rpm: 0}
billing: %s
auth: {erc8004: {network: base-sepolia, rpc: %q, identity_registry: %q, reputation_registry: %q, audience: "https://gw.example", reviewers: [%q], tags: [quality], refresh: 1s%s}}
`, billing, l.chain.URL, l.chain.Identities.Hex(), l.chain.Reputation.Hex(), anvil.Address(reviewer).Hex(), more),
	})
	return l
}

// claim is what a holder has to sign.
type claim struct {
	AgentID   string             `json:"agent_id"`
	Holder    string             `json:"holder"`
	Nonce     string             `json:"nonce"`
	Expires   int64              `json:"expires"`
	TypedData apitypes.TypedData `json:"typed_data"`
}

func (l *lab) post(t *testing.T, key string, v any) gateway.Answer {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return l.Do(t, gateway.Call{Path: "/v1/identity/link", Key: key, Body: string(b)})
}

// ask asks what the owner has to sign.
func (l *lab) ask(t *testing.T, key string, agent int64) (c claim) {
	t.Helper()
	got := l.post(t, key, map[string]any{"agent_id": fmt.Sprint(agent)})
	if got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	got.JSON(t, &c)
	return c
}

// sign is a signature of what is asked for.
func (c *claim) sign(t *testing.T, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	hash, _, err := apitypes.TypedDataAndHash(c.TypedData)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := crypto.Sign(hash, by)
	if err != nil {
		t.Fatal(err)
	}
	signature[64] += 27
	return signature
}

func (l *lab) sendClaim(t *testing.T, key string, c *claim, signature []byte) gateway.Answer {
	t.Helper()
	return l.post(t, key, map[string]any{"agent_id": c.AgentID, "holder": c.Holder, "nonce": c.Nonce, "expires": c.Expires, "signature": hexutil.Encode(signature)})
}

func (l *lab) link(t *testing.T, key string, agent int64, by *ecdsa.PrivateKey) {
	t.Helper()
	c := l.ask(t, key, agent)
	if got := l.sendClaim(t, key, &c, c.sign(t, by)); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
}

// spread is the percentage that a request's answer shows, and that its record was charged with.
func (l *lab) spread(t *testing.T, key string) string {
	t.Helper()
	got := l.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: key, Body: body})
	if got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	return got.Header.Get("X-Bardo-Spread")
}

// becomes waits until a key's spread is as wanted.
func (l *lab) becomes(t *testing.T, key, want string) {
	t.Helper()
	var got string
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); {
		if got = l.spread(t, key); got == want {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	t.Fatalf("the spread is %s, want %s", got, want)
}

// The reputation of a linked agent lowers the spread by the table of D-51, as feedback of the operator's reviewers comes in; the record and the charge follow.
func TestX05ReputationLowersTheSpread(t *testing.T) {
	t.Parallel()
	l := start(t, "{spread_pct: 20}", "")
	owner := l.CreateKey(t, "--name", "owner", "--balance-usd", "5")
	agent := l.chain.register(t, anvil.Address(ada))
	if agent != 0 {
		t.Fatalf("the first agent is %d, and 0 is not none", agent)
	}
	if s := l.spread(t, owner.Key); s != "20" {
		t.Errorf("before the link: %s", s)
	}
	l.link(t, owner.Key, agent, ada)
	if s := l.spread(t, owner.Key); s != "20" {
		t.Errorf("without feedback: %s", s)
	}
	l.chain.review(t, anvil.Address(reviewer), agent, 100, 50)
	l.becomes(t, owner.Key, "18")
	l.chain.review(t, anvil.Address(reviewer), agent, 100, 150)
	l.becomes(t, owner.Key, "15")
	if s := l.spread(t, l.Key); s != "20" {
		t.Errorf("another key: %s", s)
	}
	var who struct {
		Links []struct {
			Subject string
			Agent   struct {
				Score      int64
				Reputation string
				SpreadPct  int `json:"spread_pct"`
			}
		}
	}
	l.Do(t, gateway.Call{Path: "/v1/identity", Key: owner.Key}).JSON(t, &who)
	want := "erc8004:eip155:84532:" + strings.ToLower(l.chain.Identities.Hex()) + ":0"
	if len(who.Links) != 1 || who.Links[0].Subject != want || who.Links[0].Agent.Score != 200 || who.Links[0].Agent.SpreadPct != 15 || who.Links[0].Agent.Reputation != "verified" {
		t.Errorf("%+v", who)
	}
	if got := l.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/identity/link?subject=" + want, Key: owner.Key}); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if s := l.spread(t, owner.Key); s != "20" {
		t.Errorf("after the link was ended: %s", s)
	}
}

// Pitfall 24: what anybody says of an agent changes nothing, nor do values beyond the scale.
func TestPitfall24ForgedReputation(t *testing.T) {
	t.Parallel()
	l := start(t, "{spread_pct: 20}", "")
	owner := l.CreateKey(t, "--name", "owner", "--balance-usd", "5")
	agent := l.chain.register(t, anvil.Address(ada))
	l.link(t, owner.Key, agent, ada)
	for i := range 1000 { // fresh clients
		who := common.BigToAddress(big.NewInt(int64(0x10000 + i)))
		l.chain.Do(t, nil, "anvil_impersonateAccount", who)
		l.chain.Do(t, nil, "anvil_setBalance", who, "0xde0b6b3a7640000")
	}
	l.chain.Do(t, nil, "evm_setAutomine", false)
	data := call(t, "giveFeedback(uint256,int128,uint8,string,string,string,string,bytes32)", big.NewInt(agent), big.NewInt(100), uint8(0), "quality", "", "", "", [32]byte{})
	for i := range 1000 {
		who := common.BigToAddress(big.NewInt(int64(0x10000 + i)))
		l.chain.Do(t, new(common.Hash), "eth_sendTransaction", map[string]any{"from": who, "to": l.chain.Reputation, "data": hexutil.Bytes(data), "gas": hexutil.Uint64(300_000)})
	}
	l.chain.Do(t, nil, "evm_setAutomine", true)
	last := common.BigToAddress(big.NewInt(0x10000 + 999))
	for l.chain.count(t, last, agent) == 0 {
		l.chain.Do(t, nil, "evm_mine")
	}
	l.chain.review(t, anvil.Address(reviewer), agent, 1_000_000, 50) // a reviewer's, far beyond the scale: the marker that all of it was read
	l.becomes(t, owner.Key, "18")
	if s := l.spread(t, owner.Key); s != "18" {
		t.Errorf("a thousand strangers and large values: %s", s)
	}
}

// The link ends with a transfer of the agent, for good.
func TestX05ATransferEndsTheLink(t *testing.T) {
	t.Parallel()
	l := start(t, "{spread_pct: 20}", "")
	owner := l.CreateKey(t, "--name", "owner", "--balance-usd", "5")
	agent := l.chain.register(t, anvil.Address(ada))
	l.chain.review(t, anvil.Address(reviewer), agent, 100, 50)
	l.link(t, owner.Key, agent, ada)
	if s := l.spread(t, owner.Key); s != "18" {
		t.Errorf("after the link: %s", s)
	}
	transfer := func(from, to *ecdsa.PrivateKey) {
		l.chain.Send(t, anvil.Address(from), &l.chain.Identities, call(t, "transferFrom(address,address,uint256)", anvil.Address(from), anvil.Address(to), big.NewInt(agent)))
	}
	transfer(ada, bob)
	l.becomes(t, owner.Key, "20")
	transfer(bob, ada)
	other := l.CreateKey(t, "--name", "other", "--balance-usd", "5")
	l.link(t, other.Key, agent, ada) // the agent counts again only where it is linked again
	l.becomes(t, other.Key, "18")
	if s := l.spread(t, owner.Key); s != "20" {
		t.Errorf("the link that had ended is back: %s", s)
	}
}

// With plans, reputation counts in the golem plan alone, and never raises a spread.
func TestX05WithPlansReputationIsForGolems(t *testing.T) {
	t.Parallel()
	l := start(t, "{tiers: {free: {}, golem: {}}}", "")
	for _, row := range []struct {
		plan, want string
		reviews    int
	}{
		{"free", "25", 200}, // for which another key pays less
		{"golem", "8", 1000},
	} {
		owner := l.CreateKey(t, "--name", row.plan, "--tier", row.plan, "--balance-usd", "5")
		agent := l.chain.register(t, anvil.Address(ada))
		l.chain.review(t, anvil.Address(reviewer), agent, 100, row.reviews)
		l.link(t, owner.Key, agent, ada)
		if s := l.spread(t, owner.Key); s != row.want {
			t.Errorf("%s: %s, want %s", row.plan, s, row.want)
		}
	}
	owner := l.CreateKey(t, "--name", "verified", "--tier", "golem", "--balance-usd", "5")
	agent := l.chain.register(t, anvil.Address(ada))
	l.chain.review(t, anvil.Address(reviewer), agent, 100, 200)
	l.link(t, owner.Key, agent, ada)
	if s := l.spread(t, owner.Key); s != "10" {
		t.Errorf("a reputation of 15 raises a plan of 10: %s", s)
	}
}

// Pitfalls 3, 19, 20 and 22: who may sign for an agent.
func TestPitfall19ContractWalletsThatHoldAgents(t *testing.T) {
	t.Parallel()
	l := start(t, "{spread_pct: 20}", "")
	owner := l.CreateKey(t, "--name", "owner")
	good := l.chain.Deploy(t, "SmartWallet", common.LeftPadBytes(anvil.Address(ada).Bytes(), 32))
	agent := l.chain.registerFor(t, good)
	l.link(t, owner.Key, agent, ada)
	l.chain.Send(t, anvil.Address(ada), &good, call(t, "rotate(address)", anvil.Address(bob)))
	c := l.ask(t, owner.Key, agent)
	if got := l.sendClaim(t, owner.Key, &c, c.sign(t, ada)); got.Status != http.StatusForbidden {
		t.Errorf("the wallet's owner of yesterday: %d %s", got.Status, got.Body)
	}
	for mode, want := range map[byte]int{1: 200, 2: 403, 3: 403, 4: 403, 5: 403, 6: 403} {
		evil := l.chain.Deploy(t, "EvilWallet", common.LeftPadBytes([]byte{mode}, 32))
		mine := l.chain.registerFor(t, evil)
		c := l.ask(t, owner.Key, mine)
		if got := l.sendClaim(t, owner.Key, &c, c.sign(t, bob)); got.Status != want {
			t.Errorf("mode %d: %d %s", mode, got.Status, got.Body)
		}
		if mode == 1 { // a wallet that says yes to everything speaks for its own agents alone
			c := l.ask(t, owner.Key, agent)
			c.Holder = evil.Hex()
			if got := l.sendClaim(t, owner.Key, &c, c.sign(t, bob)); got.Status != http.StatusForbidden {
				t.Errorf("for the agent of another wallet: %d %s", got.Status, got.Body)
			}
		}
	}
}

// What a claim has wrong is told, and links nothing.
func TestClaimsThatAreRefused(t *testing.T) {
	t.Parallel()
	l := start(t, "{spread_pct: 20}", "")
	owner, other := l.CreateKey(t, "--name", "owner"), l.CreateKey(t, "--name", "other")
	reader := l.CreateKey(t, "--name", "reader", "--read-only")
	agent := l.chain.register(t, anvil.Address(ada))
	c := l.ask(t, owner.Key, agent)
	signature := c.sign(t, ada)
	for _, row := range []struct {
		name, key, body string
		status          int
	}{
		{"no agent", owner.Key, `{"agent_id":"99"}`, http.StatusNotFound},
		{"no number", owner.Key, `{"agent_id":"-1"}`, http.StatusBadRequest},
		{"an id beyond 2^256", owner.Key, `{"agent_id":"` + strings.Repeat("9", 78) + `"}`, http.StatusBadRequest},
		{"a stranger as the holder", owner.Key, fmt.Sprintf(`{"agent_id":"0","holder":%q}`, strings.ToLower(anvil.Address(bob).Hex())), http.StatusForbidden},
		{"a bad address", owner.Key, `{"agent_id":"0","holder":"0x12"}`, http.StatusBadRequest},
		{"a bad signature", owner.Key, `{"agent_id":"0","signature":"0xzz"}`, http.StatusBadRequest},
		{"a signature without a nonce", owner.Key, fmt.Sprintf(`{"agent_id":"0","holder":%q,"signature":"0x00"}`, c.Holder), http.StatusBadRequest},
		{"not JSON", owner.Key, `{`, http.StatusBadRequest},
		{"a member twice", owner.Key, `{"agent_id":"0","agent_id":"1"}`, http.StatusBadRequest},
		{"a member that there is not", owner.Key, `{"agent_id":"0","owner":"0x12"}`, http.StatusBadRequest},
		{"an agent and a user", owner.Key, `{"agent_id":"0","privy_token":"x"}`, http.StatusBadRequest},
		{"a wallet that is neither", owner.Key, `{"agent_id":"0","wallet":"yes"}`, http.StatusBadRequest},
		{"a key that may only read", reader.Key, `{"agent_id":"0"}`, http.StatusForbidden},
		{"no key", "bardo_sk_x", `{"agent_id":"0"}`, http.StatusUnauthorized},
	} {
		if got := l.Do(t, gateway.Call{Path: "/v1/identity/link", Key: row.key, Body: row.body}); got.Status != row.status {
			t.Errorf("%s: %d %s, want %d", row.name, got.Status, got.Body, row.status)
		}
	}
	if got := l.sendClaim(t, other.Key, &c, signature); got.Status != http.StatusForbidden {
		t.Errorf("with the key of another account: %d %s", got.Status, got.Body)
	}
	if got := l.sendClaim(t, owner.Key, &c, c.sign(t, bob)); got.Status != http.StatusForbidden {
		t.Errorf("signed by a stranger: %d %s", got.Status, got.Body)
	}
	s := new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(signature[32:64]))
	twin := append(append(append([]byte(nil), signature[:32]...), common.LeftPadBytes(s.Bytes(), 32)...), 27+28-signature[64])
	if got := l.sendClaim(t, owner.Key, &c, twin); got.Status != http.StatusForbidden {
		t.Errorf("the signature's twin: %d %s", got.Status, got.Body)
	}
	if got := l.sendClaim(t, owner.Key, &c, append(make([]byte, 64), common.FromHex(strings.Repeat("6492", 16))...)); got.Status != http.StatusForbidden || !strings.Contains(got.Body, "ERC-6492") {
		t.Errorf("of a wallet that is not deployed: %d %s", got.Status, got.Body)
	}
	if got := l.sendClaim(t, owner.Key, &c, signature); got.Status != http.StatusOK {
		t.Errorf("the right one: %d %s", got.Status, got.Body)
	}
	if got := l.sendClaim(t, owner.Key, &c, signature); got.Status != http.StatusConflict {
		t.Errorf("the same again: %d %s", got.Status, got.Body)
	}
}
