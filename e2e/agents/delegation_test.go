package agents

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"bardo.money/gateway/e2e/anvil"
	"bardo.money/gateway/e2e/gateway"
)

// typed signs a message of the gateway's domain with another implementation of EIP-712 than the gateway's.
func (l *lab) typed(t *testing.T, name string, fields []apitypes.Type, message map[string]any, by *ecdsa.PrivateKey) (digest, signature []byte) {
	t.Helper()
	data := apitypes.TypedData{
		Types:       apitypes.Types{name: fields, "EIP712Domain": {{Name: "name", Type: "string"}, {Name: "version", Type: "string"}, {Name: "chainId", Type: "uint256"}, {Name: "verifyingContract", Type: "address"}}},
		PrimaryType: name, Message: message,
		Domain: apitypes.TypedDataDomain{Name: "BardoInference", Version: "1", ChainId: (*math.HexOrDecimal256)(big.NewInt(84532)), VerifyingContract: l.chain.Identities.Hex()},
	}
	digest, _, err := apitypes.TypedDataAndHash(data)
	if err != nil {
		t.Fatal(err)
	}
	if signature, err = crypto.Sign(digest, by); err != nil {
		t.Fatal(err)
	}
	signature[64] += 27
	return digest, signature
}

// delegation is a header, and what proofs refer to.
type delegation struct {
	header string
	digest []byte
}

// fieldsOf are the members of a type, as the type is written.
func fieldsOf(text string) (fields []apitypes.Type) {
	for f := range strings.SplitSeq(text, ",") {
		typ, name, _ := strings.Cut(f, " ")
		fields = append(fields, apitypes.Type{Name: name, Type: typ})
	}
	return fields
}

func word() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return hexutil.Encode(b[:])
}

// delegate has an owner sign that bob may send requests, with changes.
func (l *lab) delegate(t *testing.T, agent int64, by *ecdsa.PrivateKey, changes map[string]any) delegation {
	t.Helper()
	now := time.Now().Unix()
	d := map[string]any{
		"agent_id": fmt.Sprint(agent), "delegate": anvil.Address(bob).Hex(), "issuer": anvil.Address(by).Hex(), "audience": "https://gw.example", "scope": "generate", "max_spend": "1000000",
		"valid_after": now - 1, "valid_before": now + 3600, "nonce": word(),
	}
	maps.Copy(d, changes)
	text := func(name string) string { return fmt.Sprint(d[name]) }
	fields := fieldsOf("uint256 agentId,address delegate,address issuer,string audience,string scope,uint256 maxSpend,uint256 validAfter,uint256 validBefore,bytes32 nonce")
	digest, signature := l.typed(t, "Delegation", fields, map[string]any{
		"agentId": text("agent_id"), "delegate": text("delegate"), "issuer": text("issuer"), "audience": text("audience"), "scope": text("scope"), "maxSpend": text("max_spend"),
		"validAfter": text("valid_after"), "validBefore": text("valid_before"), "nonce": text("nonce"),
	}, by)
	d["signature"] = hexutil.Encode(signature)
	return delegation{encoded(d), digest}
}

func encoded(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// prove is the headers of a request of the delegate.
func (l *lab) prove(t *testing.T, d delegation, method, path, body string, by *ecdsa.PrivateKey) []string {
	t.Helper()
	sum, now, nonce := sha256.Sum256([]byte(body)), time.Now().Unix(), word()
	fields := fieldsOf("bytes32 delegation,string method,string path,bytes32 body,uint256 time,bytes32 nonce")
	_, signature := l.typed(t, "RequestProof", fields, map[string]any{
		"delegation": hexutil.Encode(d.digest), "method": method, "path": path, "body": hexutil.Encode(sum[:]), "time": strconv.FormatInt(now, 10), "nonce": nonce,
	}, by)
	proof := encoded(map[string]any{"body": hexutil.Encode(sum[:]), "time": now, "nonce": nonce, "signature": hexutil.Encode(signature)})
	return []string{"X-Bardo-Delegation: " + d.header, "X-Bardo-Proof: " + proof}
}

const chatPath = "/v1/chat/completions"

// ask sends a request of the delegate.
func (l *lab) askAs(t *testing.T, d delegation) gateway.Answer {
	t.Helper()
	return l.Do(t, gateway.Call{NoKey: true, Path: chatPath, Body: body, Header: l.prove(t, d, http.MethodPost, chatPath, body, bob)})
}

func startDelegations(t *testing.T) (l *lab, agent int64) {
	t.Helper()
	l = start(t, "{spread_pct: 20}", ", delegations: true")
	owner := l.CreateKey(t, "--name", "owner", "--balance-usd", "5")
	agent = l.chain.register(t, anvil.Address(ada))
	l.link(t, owner.Key, agent, ada)
	return l, agent
}

// A delegate is served from the account of the agent whose owner signed for it, within its scope; every request has a proof of its own.
func TestX06ADelegateOfAnAgentIsServed(t *testing.T) {
	t.Parallel()
	l, agent := startDelegations(t)
	d := l.delegate(t, agent, ada, nil)
	for range 2 {
		got := l.askAs(t, d)
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Balance") == "" {
			t.Fatalf("%d %s, balance %q", got.Status, got.Body, got.Header.Get("X-Bardo-Balance"))
		}
	}
	if got := l.Do(t, gateway.Call{NoKey: true, Path: "/v1/models?limit=1", Header: l.prove(t, d, http.MethodGet, "/v1/models?limit=1", "", bob)}); got.Status != http.StatusOK {
		t.Errorf("a request without a body: %d %s", got.Status, got.Body)
	}
	if got := l.Do(t, gateway.Call{NoKey: true, Path: "/v1/balance", Header: l.prove(t, d, http.MethodGet, "/v1/balance", "", bob)}); got.Status != http.StatusForbidden {
		t.Errorf("what belongs to the account: %d %s", got.Status, got.Body)
	}
	headers := l.prove(t, d, http.MethodPost, chatPath, body, bob)
	for name, c := range map[string]gateway.Call{
		"another body":            {Path: chatPath, Body: strings.Replace(body, "Hello", "Other", 1), Header: l.prove(t, d, http.MethodPost, chatPath, body, bob)},
		"no body":                 {Path: "/v1/models", Header: l.prove(t, d, http.MethodGet, "/v1/models", "x", bob)},
		"another path":            {Path: "/v1/responses", Body: body, Header: l.prove(t, d, http.MethodPost, chatPath, body, bob)},
		"another query":           {Path: chatPath + "?x=1", Body: body, Header: l.prove(t, d, http.MethodPost, chatPath, body, bob)},
		"by somebody else":        {Path: chatPath, Body: body, Header: l.prove(t, d, http.MethodPost, chatPath, body, ada)},
		"without a proof":         {Path: chatPath, Body: body, Header: headers[:1]},
		"a delegation of bob's":   {Path: chatPath, Body: body, Header: l.prove(t, l.delegate(t, agent, bob, map[string]any{"issuer": anvil.Address(ada).Hex()}), http.MethodPost, chatPath, body, bob)},
		"for another gateway":     {Path: chatPath, Body: body, Header: l.prove(t, l.delegate(t, agent, ada, map[string]any{"audience": "https://other.example"}), http.MethodPost, chatPath, body, bob)},
		"a delegation that ended": {Path: chatPath, Body: body, Header: l.prove(t, l.delegate(t, agent, ada, map[string]any{"valid_after": 1000, "valid_before": 2000}), http.MethodPost, chatPath, body, bob)},
	} {
		c.NoKey = true
		if got := l.Do(t, c); got.Status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
	c := gateway.Call{NoKey: true, Path: chatPath, Body: body, Header: headers}
	if got := l.Do(t, c); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if got := l.Do(t, c); got.Status != http.StatusUnauthorized {
		t.Errorf("the same proof again: %d %s", got.Status, got.Body)
	}
}

// A delegation has a budget and models of its own, and ends with a transfer of its agent.
func TestPitfall23ADelegationEndsWithItsBudgetItsModelsAndItsAgent(t *testing.T) {
	t.Parallel()
	l, agent := startDelegations(t)
	if got := l.askAs(t, l.delegate(t, agent, ada, map[string]any{"max_spend": "1"})); got.Status != http.StatusTooManyRequests || !strings.Contains(got.Body, "budget") {
		t.Errorf("beyond the budget: %d %s", got.Status, got.Body)
	}
	if got := l.askAs(t, l.delegate(t, agent, ada, map[string]any{"scope": "generate model:gpt-4.1"})); got.Status != http.StatusForbidden {
		t.Errorf("another model: %d %s", got.Status, got.Body)
	}
	if got := l.askAs(t, l.delegate(t, agent, ada, map[string]any{"scope": "generate model:gpt-4.1-mini"})); got.Status != http.StatusOK {
		t.Errorf("its model: %d %s", got.Status, got.Body)
	}
	d := l.delegate(t, agent, ada, nil)
	if got := l.askAs(t, d); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	l.chain.Send(t, anvil.Address(ada), &l.chain.Identities, call(t, "transferFrom(address,address,uint256)", anvil.Address(ada), anvil.Address(reviewer), big.NewInt(agent)))
	var got gateway.Answer
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); {
		if got = l.askAs(t, d); got.Status != http.StatusOK {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond): // the gateway reads the chain meanwhile
		case <-t.Context().Done():
		}
	}
	if got.Status != http.StatusForbidden {
		t.Errorf("after the transfer: %d %s", got.Status, got.Body)
	}
}

// A contract wallet issues delegations by its own word.
func TestPitfall19DelegationsOfContractWallets(t *testing.T) {
	t.Parallel()
	l := start(t, "{spread_pct: 20}", ", delegations: true")
	owner := l.CreateKey(t, "--name", "owner")
	good := l.chain.Deploy(t, "SmartWallet", common.LeftPadBytes(anvil.Address(ada).Bytes(), 32))
	agent := l.chain.registerFor(t, good)
	l.link(t, owner.Key, agent, ada)
	if got := l.askAs(t, l.delegate(t, agent, ada, map[string]any{"issuer": good.Hex()})); got.Status != http.StatusOK {
		t.Errorf("by its owner: %d %s", got.Status, got.Body)
	}
	if got := l.askAs(t, l.delegate(t, agent, bob, map[string]any{"issuer": good.Hex()})); got.Status != http.StatusUnauthorized {
		t.Errorf("by a stranger: %d %s", got.Status, got.Body)
	}
}
