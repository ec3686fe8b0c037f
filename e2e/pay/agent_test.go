package pay

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"bardo.money/gateway/e2e/anvil"
	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// agentClaim is what an agent's holder has to sign.
type agentClaim struct {
	AgentID   string             `json:"agent_id"`
	Holder    string             `json:"holder"`
	Nonce     string             `json:"nonce"`
	Expires   int64              `json:"expires"`
	TypedData apitypes.TypedData `json:"typed_data"`
}

// reviewedAgent has the payer register the chain's first agent, whose score is then 50, and returns what the gateway's configuration says of the registries.
func reviewedAgent(t *testing.T, c *chain) (config string) {
	t.Helper()
	c.Load(t, "../agents/contracts/contracts.json")
	identities := c.Deploy(t, "IdentityRegistry")
	reputation := c.Deploy(t, "ReputationRegistry", common.LeftPadBytes(identities[:], 32))
	c.Send(t, addressOf(payerKey), &identities, call("register()"))
	reviewer := addressOf(anvil.Key3)
	var args abi.Arguments
	for name := range strings.SplitSeq("uint256,int128,uint8,string,string,string,string,bytes32", ",") {
		typ, err := abi.NewType(name, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, abi.Argument{Type: typ})
	}
	opinion, err := args.Pack(new(big.Int), big.NewInt(100), uint8(0), "quality", "", "", "", [32]byte{})
	if err != nil {
		t.Fatal(err)
	}
	data := append(call("giveFeedback(uint256,int128,uint8,string,string,string,string,bytes32)"), opinion...)
	for range 50 {
		c.Send(t, reviewer, &reputation, data)
	}
	return fmt.Sprintf(`auth: {erc8004: {network: base-sepolia, rpc: %q, identity_registry: %q, reputation_registry: %q, audience: "https://gw.example", reviewers: [%q], tags: [quality], refresh: 1s}}
`, c.URL, identities.Hex(), reputation.Hex(), reviewer.Hex())
}

// link sends a request for a link of an agent without a key.
func link(t *testing.T, g *gateway.Gateway, v map[string]any) gateway.Answer {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return g.Do(t, gateway.Call{NoKey: true, Path: "/v1/identity/link", Body: string(b)})
}

// TestX05AWalletHasTheSpreadOfItsAgent: the wallet that speaks for an agent links it without a key, and nobody else can; what it pays for has the agent's spread.
func TestX05AWalletHasTheSpreadOfItsAgent(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	config := reviewedAgent(t, c)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}})
	g := gateway.Run(t, gateway.Options{
		Config:    c.config("}, spread_pct: 20, tiers: {") + config,
		Providers: []gateway.Provider{{ID: "own", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 40}"}}}},
	})
	spread := func() string {
		got := accept(t, ask(t, g, chatBody(false))).sign(t).send(t, g, chatBody(false))
		if got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		return got.Header.Get("X-Bardo-Spread")
	}
	if s := spread(); s != "20" {
		t.Errorf("before the link: %s", s)
	}
	if got := link(t, g, map[string]any{"agent_id": "0"}); got.Status != http.StatusUnauthorized {
		t.Errorf("an account's link without its key: %d %s", got.Status, got.Body)
	}
	stranger := addressOf(anvil.Key2).Hex()
	if got := link(t, g, map[string]any{"agent_id": "0", "wallet": true, "holder": stranger}); got.Status != http.StatusForbidden {
		t.Errorf("a stranger's wallet: %d %s", got.Status, got.Body)
	}
	var cl agentClaim
	link(t, g, map[string]any{"agent_id": "0", "wallet": true}).JSON(t, &cl)
	hash, _, err := apitypes.TypedDataAndHash(cl.TypedData)
	if err != nil {
		t.Fatal(err)
	}
	send := func(by, holder string) gateway.Answer {
		signature, err := crypto.Sign(hash, anvil.Key(by))
		if err != nil {
			t.Fatal(err)
		}
		signature[64] += 27
		return link(t, g, map[string]any{"agent_id": cl.AgentID, "wallet": true, "holder": holder, "nonce": cl.Nonce, "expires": cl.Expires, "signature": hexutil.Encode(signature)})
	}
	if got := send(anvil.Key2, cl.Holder); got.Status != http.StatusForbidden {
		t.Errorf("signed by a stranger: %d %s", got.Status, got.Body)
	}
	if got := send(anvil.Key2, stranger); got.Status != http.StatusForbidden {
		t.Errorf("a stranger signs for a wallet of its own: %d %s", got.Status, got.Body)
	}
	if s := spread(); s != "20" {
		t.Errorf("after wrong links: %s", s)
	}
	if got := send(payerKey, cl.Holder); got.Status != http.StatusOK || !strings.Contains(got.Body, `"spread_pct":18`) {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if s := spread(); s != "18" {
		t.Errorf("after the link: %s", s)
	}
	g.AssertSound(t)
}
