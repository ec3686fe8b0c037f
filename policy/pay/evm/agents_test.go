package evm

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/pay"
)

// registry answers calls by the selector of their data: hexadecimal digits, or an error's message after "!".
type registry map[string]string

// openRegistry is a client of a node with a registry of agents.
func openRegistry(t *testing.T, answers registry, o identity.NodeOptions) *Agents {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var batch []json.RawMessage
		if body[0] != '[' {
			fmt.Fprintf(w, "%s", answers.answer(body))
			return
		}
		_ = json.Unmarshal(body, &batch)
		var out []string
		for _, b := range batch {
			out = append(out, answers.answer(b))
		}
		fmt.Fprintf(w, "[%s]", strings.Join(out, ","))
	}))
	t.Cleanup(s.Close)
	o.URL = s.URL
	o.Realm = identity.Realm{Network: pay.Network{ID: 84532}, Registry: pay.Address{0xaa}, Audience: "https://gw.example"}
	n, err := OpenAgents(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (a registry) answer(body []byte) string {
	var q struct {
		ID     json.RawMessage
		Method string
		Params []json.RawMessage
	}
	_ = json.Unmarshal(body, &q)
	name := q.Method
	var call struct{ Data, Input string }
	if len(q.Params) > 0 && q.Method == "eth_call" {
		_ = json.Unmarshal(q.Params[0], &call)
		data := call.Data + call.Input
		name = data[2:10]
	}
	result, ok := a[name]
	if !ok {
		result = "!execution reverted"
	}
	if why, failed := strings.CutPrefix(result, "!"); failed {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":3,"message":%q}}`, q.ID, why)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":"0x%s"}`, q.ID, result)
}

func of(sel []byte) string { return hex.EncodeToString(sel) }

func addressWord(b byte) string {
	return strings.Repeat("0", 24) + hex.EncodeToString([]byte{b}) + strings.Repeat("0", 38)
}

func TestAnAgentIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		owner, wallet string
		want          identity.Agent
		err           error
	}{
		"with a wallet":       {addressWord(1), addressWord(2), identity.Agent{Owner: pay.Address{1}, Wallet: pay.Address{2}}, nil},
		"without a wallet":    {addressWord(1), strings.Repeat("0", 64), identity.Agent{Owner: pay.Address{1}}, nil},
		"none":                {"!execution reverted: ERC721NonexistentToken(7)", strings.Repeat("0", 64), identity.Agent{}, identity.ErrNoAgent},
		"an owner of nothing": {strings.Repeat("0", 64), strings.Repeat("0", 64), identity.Agent{}, identity.ErrNoAgent},
		"half an answer":      {"00", addressWord(2), identity.Agent{}, errAnswer},
		"no address":          {strings.Repeat("f", 64), addressWord(2), identity.Agent{}, errAnswer},
		"no answer at all":    {"", addressWord(2), identity.Agent{}, errAnswer},
	} {
		n := openRegistry(t, registry{of(ownerOf): c.owner, of(getAgentWallet): c.wallet}, identity.NodeOptions{})
		a, err := n.Agent(t.Context(), pay.Word{})
		if a != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	n := openRegistry(t, registry{of(ownerOf): "!rate limited"}, identity.NodeOptions{})
	if _, err := n.Agent(t.Context(), pay.Word{}); err == nil || errors.Is(err, identity.ErrNoAgent) {
		t.Errorf("a node that refuses to answer says that there is no agent: %v", err)
	}
}

// summary is what getSummary returns.
func summary(count uint64, value string, decimals byte) string {
	n, _ := new(big.Int).SetString(value, 10)
	if n.Sign() < 0 {
		n.Add(n, new(big.Int).Lsh(big.NewInt(1), 256))
	}
	return fmt.Sprintf("%064x%064x%064x", count, n, decimals)
}

func TestAScoreIsASumOfOpinions(t *testing.T) {
	two := []pay.Address{{1}, {2}}
	for name, c := range map[string]struct {
		answer    string
		reviewers []pay.Address
		want      int64
		fails     bool
	}{
		"sixty good ones, by two":         {summary(60, "100", 0), two, 120, false},
		"of half a value":                 {summary(60, "50", 0), two, 60, false},
		"with decimals":                   {summary(60, "7550", 2), two, 90, false},
		"rounded down":                    {summary(1, "99", 0), two, 1, false},
		"beyond the scale":                {summary(10, "1000000", 0), two, 20, false},
		"below zero":                      {summary(60, "-100", 0), two, 0, false},
		"none":                            {summary(0, "0", 0), two, 0, false},
		"more than anybody has":           {summary(1<<63, "100", 0), two, 2 * maxOpinions, false},
		"without reviewers":               {summary(60, "100", 0), nil, 0, false},
		"half an answer":                  {summary(60, "100", 0)[:64], two, 0, true},
		"impossible decimals":             {summary(60, "100", 77), two, 0, true},
		"a count that is no count":        {strings.Repeat("f", 64) + summary(1, "1", 0)[64:], two, 0, true},
		"a registry that does not answer": {"!execution reverted", two, 0, true},
	} {
		n := openRegistry(t, registry{of(getSummary): c.answer}, identity.NodeOptions{Reputation: pay.Address{0xbb}, Reviewers: c.reviewers, Scale: 100})
		score, err := n.Score(t.Context(), pay.Word{})
		if score != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %d, %v; want %d", name, score, err, c.want)
		}
	}
}

func TestTheRegistriesAreThoseOfTheRealm(t *testing.T) {
	right := registry{"eth_chainId": "14a34", "eth_getCode": "60", of(getRegistry): addressWord(0xaa)}
	for name, c := range map[string]struct {
		change func(a registry)
		fits   bool
		same   bool // it is a mismatch, and not a failure of the node
	}{
		"right":                                {func(registry) {}, true, false},
		"another chain":                        {func(a registry) { a["eth_chainId"] = "1" }, false, true},
		"no contract":                          {func(a registry) { a["eth_getCode"] = "" }, false, true},
		"a reputation registry of another one": {func(a registry) { a[of(getRegistry)] = addressWord(0xcc) }, false, true},
		"no reputation registry":               {func(a registry) { delete(a, of(getRegistry)) }, false, true},
	} {
		answers := maps.Clone(right)
		c.change(answers)
		n := openRegistry(t, answers, identity.NodeOptions{Reputation: pay.Address{0xbb}})
		err := n.Check(t.Context())
		_, mismatch := errors.AsType[*pay.Mismatch](err)
		if (err == nil) != c.fits || mismatch != c.same {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAClaimIsSignedAsWalletsDo: the digest that holders sign is that of another implementation of EIP-712; a high s is refused.
func TestAClaimIsSignedAsWalletsDo(t *testing.T) {
	n := openRegistry(t, nil, identity.NodeOptions{})
	claim := &identity.LinkClaim{Agent: pay.Word{31: 7}, Holder: pay.Address{1}, Account: "acct", Nonce: pay.Word{5}, Expires: 1_700_000_000}
	text, err := claim.TypedData(&n.o.Realm)
	if err != nil {
		t.Fatal(err)
	}
	var data apitypes.TypedData
	if err := json.Unmarshal(text, &data); err != nil {
		t.Fatal(err)
	}
	want, _, err := apitypes.TypedDataAndHash(data)
	if err != nil {
		t.Fatal(err)
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	signature, err := crypto.Sign(want, key)
	if err != nil {
		t.Fatal(err)
	}
	digest := claim.Digest(&n.o.Realm)
	who, ok := n.Recover(digest, signature)
	if common.Address(who) != crypto.PubkeyToAddress(key.PublicKey) || !ok {
		t.Errorf("%s, %v; the digests are %s and %x", who, ok, digest, want)
	}
	s := new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(signature[32:64]))
	twin := append(append(append([]byte(nil), signature[:32]...), common.LeftPadBytes(s.Bytes(), 32)...), 1-signature[64])
	if _, ok := n.Recover(digest, twin); ok {
		t.Error("the twin of a signature, with a high s, is accepted")
	}
}

func FuzzOpinion(f *testing.F) {
	b, _ := hex.DecodeString(summary(60, "100", 0))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := scorePart(b, 100); err == nil && (n.Sign() < 0 || n.Cmp(big.NewRat(maxOpinions, 1)) > 0) {
			t.Errorf("an opinion counts for %s", n)
		}
	})
}
