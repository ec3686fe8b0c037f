package pay

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"bardo.money/gateway/e2e/gateway"
)

// quote is what a 402 says, in version 2 of the protocol.
type quote struct {
	Version int    `json:"x402Version"`
	Error   string `json:"error"`
	Accepts []requirement
}

type requirement struct {
	Scheme            string `json:"scheme"`
	Network           string `json:"network"`
	Amount            string `json:"amount"`
	Asset             string `json:"asset"`
	PayTo             string `json:"payTo"`
	MaxTimeoutSeconds int64  `json:"maxTimeoutSeconds"`
	Extra             struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Quote   string `json:"quote,omitempty"`

		Facilitator string `json:"facilitatorAddress,omitempty"`
	} `json:"extra"`
}

// payment is one that a test signs. What is in it can be changed before and after.
type payment struct {
	Key                     string
	From, To                common.Address
	Value                   int64
	ValidAfter, ValidBefore int64
	Nonce                   [32]byte
	Chain                   int64
	Contract                common.Address
	Accepted                requirement
	Signature               []byte // as signed; set it to send another one
	Version                 int
	UpTo                    bool
	Spender, Facilitator    common.Address // with UpTo
}

// ask asks for a price.
func ask(t testing.TB, g *gateway.Gateway, body string, header ...string) (q quote) {
	t.Helper()
	got := g.Do(t, gateway.Call{NoKey: true, Path: "/v1/chat/completions", Body: body, Header: header})
	if got.Status != http.StatusPaymentRequired {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	text, err := base64.StdEncoding.DecodeString(got.Header.Get("Payment-Required"))
	if err != nil || json.Unmarshal(text, &q) != nil || len(q.Accepts) == 0 {
		t.Fatalf("PAYMENT-REQUIRED is %q: %v", got.Header.Get("Payment-Required"), err)
	}
	return q
}

// accept is the payment of the payer for a quote, not signed yet.
func accept(t testing.TB, q quote) *payment {
	t.Helper()
	r := q.Accepts[0]
	value, err := strconv.ParseInt(r.Amount, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p := &payment{
		Key: payerKey, From: addressOf(payerKey), To: common.HexToAddress(r.PayTo), Value: value, ValidBefore: time.Now().Unix() + r.MaxTimeoutSeconds, Chain: 84532,
		Contract: common.HexToAddress(r.Asset), Accepted: r, Version: 2,
	}
	_, _ = rand.Read(p.Nonce[:])
	return p
}

// sign signs what the payment says.
func (p *payment) sign(t testing.TB) *payment {
	t.Helper()
	hash := crypto.Keccak256
	if p.UpTo {
		return p.signDigest(t, p.permit())
	}
	domain := hash(hash([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")), hash([]byte("USD Coin")), hash([]byte("2")),
		word(uint64(p.Chain)), common.LeftPadBytes(p.Contract[:], 32))
	content := hash(hash([]byte("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)")),
		common.LeftPadBytes(p.From[:], 32), common.LeftPadBytes(p.To[:], 32), word(uint64(p.Value)), word(uint64(p.ValidAfter)), word(uint64(p.ValidBefore)), p.Nonce[:])
	return p.signDigest(t, hash([]byte{0x19, 0x01}, domain, content))
}

// permit is what is signed for scheme upto.
func (p *payment) permit() []byte {
	hash, wide := crypto.Keccak256, func(a common.Address) []byte { return common.LeftPadBytes(a[:], 32) }
	const token, witness = "TokenPermissions(address token,uint256 amount)", "Witness(address to,address facilitator,uint256 validAfter)"
	domain := hash(hash([]byte("EIP712Domain(string name,uint256 chainId,address verifyingContract)")), hash([]byte("Permit2")), word(uint64(p.Chain)), wide(common.HexToAddress(permit2)))
	content := hash(hash([]byte("PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,Witness witness)"+token+witness)),
		hash(hash([]byte(token)), wide(p.Contract), word(uint64(p.Value))), wide(p.Spender), p.Nonce[:], word(uint64(p.ValidBefore)),
		hash(hash([]byte(witness)), wide(p.To), wide(p.Facilitator), word(uint64(p.ValidAfter))))
	return hash([]byte{0x19, 0x01}, domain, content)
}

func (p *payment) signDigest(t testing.TB, digest []byte) *payment {
	t.Helper()
	key, err := crypto.HexToECDSA(p.Key)
	if err != nil {
		t.Fatal(err)
	}
	if p.Signature, err = crypto.Sign(digest, key); err != nil {
		t.Fatal(err)
	}
	p.Signature[64] += 27
	return p
}

// twin is the other signature of the same content.
func (p *payment) twin() {
	s := new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(p.Signature[32:64]))
	p.Signature = append(append(append([]byte{}, p.Signature[:32]...), common.LeftPadBytes(s.Bytes(), 32)...), 27+28-p.Signature[64])
}

// header is the payment as a header.
func (p *payment) header() string {
	payload := map[string]any{"signature": hexOf(p.Signature), "authorization": map[string]any{
		"from": p.From.Hex(), "to": p.To.Hex(), "value": strconv.FormatInt(p.Value, 10), "validAfter": strconv.FormatInt(p.ValidAfter, 10),
		"validBefore": strconv.FormatInt(p.ValidBefore, 10), "nonce": hexOf(p.Nonce[:]),
	}}
	if p.UpTo {
		payload = map[string]any{"signature": hexOf(p.Signature), "permit2Authorization": map[string]any{
			"from": p.From.Hex(), "permitted": map[string]any{"token": p.Contract.Hex(), "amount": strconv.FormatInt(p.Value, 10)}, "spender": p.Spender.Hex(),
			"nonce": new(big.Int).SetBytes(p.Nonce[:]).String(), "deadline": strconv.FormatInt(p.ValidBefore, 10),
			"witness": map[string]any{"to": p.To.Hex(), "facilitator": p.Facilitator.Hex(), "validAfter": strconv.FormatInt(p.ValidAfter, 10)},
		}}
	}
	m := map[string]any{"x402Version": p.Version, "payload": payload}
	name := "PAYMENT-SIGNATURE"
	if p.Version == 1 {
		m["scheme"], m["network"], name = "exact", "base-sepolia", "X-PAYMENT"
	} else {
		m["accepted"] = p.Accepted
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return name + ": " + base64.StdEncoding.EncodeToString(b)
}

// send sends a request with the payment.
func (p *payment) send(t testing.TB, g *gateway.Gateway, body string, more ...string) gateway.Answer {
	t.Helper()
	return g.Do(t, gateway.Call{NoKey: true, Path: "/v1/chat/completions", Body: body, Header: append(more, p.header())})
}

// reason is why a payment was not taken.
func reason(t testing.TB, a gateway.Answer) string {
	t.Helper()
	if a.Status != http.StatusPaymentRequired {
		return strconv.Itoa(a.Status) + " " + a.Body
	}
	var b struct{ Error string }
	if strings.HasPrefix(a.Body, `{"x402Version"`) {
		a.JSON(t, &b)
		return b.Error
	}
	return a.Body
}

// decode reads base64 of JSON.
func decode(t testing.TB, text string, into any) {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, into) != nil {
		t.Fatalf("%q is not base64 of JSON: %v", text, err)
	}
}
