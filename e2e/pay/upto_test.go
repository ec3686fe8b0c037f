package pay

import (
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// The contracts of scheme upto, where every chain has them.
const (
	permit2   = "0x000000000022D473030F116dDEE9F6B43aC78BA3"
	upToProxy = "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002"
)

// withUpTo gives the chain the contracts of scheme upto, and the payer's approval.
func (c *chain) withUpTo(t testing.TB) *chain {
	t.Helper()
	for name, at := range map[string]string{"TestPermit2": permit2, "TestUpToProxy": upToProxy} {
		var code hexutil.Bytes
		c.Do(t, &code, "eth_getCode", c.Deploy(t, name), "latest")
		c.Do(t, nil, "anvil_setCode", at, code)
	}
	c.approve(t, payerKey, 1_000_000_000)
	return c
}

func (c *chain) approve(t testing.TB, key string, amount int64) {
	t.Helper()
	c.Send(t, addressOf(key), &c.Token, call("approve(address,uint256)", common.FromHex(permit2), big.NewInt(amount).Bytes()))
}

// TestX02ForeignClientsPayWhatItCost: each client signs a maximum, and pays what its request cost and the fee, for an answer that is streamed and one that is
// not. The chain, the ledger and the answer say the same amount.
func TestX02ForeignClientsPayWhatItCost(t *testing.T) {
	t.Parallel()
	c := startChain(t).withUpTo(t)
	g, p := serve(t, c, "")
	wallet := "wallet_" + strings.ToLower(addressOf(payerKey).Hex()[2:])
	for i, client := range []string{"upto", "python-upto"} {
		by := startPayer(t, c, client)
		for j, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", client, stream), func(t *testing.T) {
				before, had := c.received(t), c.balance(t, addressOf(payerKey))
				r := by.pay(t, g.URL+"/v1/chat/completions", chatBody(stream))
				if r.Status != http.StatusOK {
					t.Fatalf("%+v\n%s", r, g.Log())
				}
				const want = usualCost + 1000
				if !stream && (r.Settlement == nil || !r.Settlement.Success || r.Settlement.Amount != strconv.Itoa(want)) {
					t.Errorf("the settlement is %+v", r.Settlement)
				}
				if got := waitReceived(t, c, before); got-before != want || had-c.balance(t, addressOf(payerKey)) != want {
					t.Errorf("%d arrived, want %d", got-before, want)
				}
				if credit := creditOf(t, g, wallet); credit != 0 {
					t.Errorf("the wallet has a credit of %d", credit)
				}
				if calls := len(p.Generations()); calls != 2*i+j+1 {
					t.Errorf("the provider was called %d times", calls)
				}
			})
		}
	}
	settle(t, c, 4)
	g.AssertSound(t)
	if out := g.Bardo(t, "usage", "--key", wallet, "--format", "csv"); !strings.Contains(out, "0.012000") {
		t.Errorf("the ledger has charged %s", out)
	}
}

// acceptUpTo is a payment by scheme upto for a quote, not signed yet.
func acceptUpTo(t testing.TB, q quote) *payment {
	t.Helper()
	if q.Accepts[0].Scheme != "upto" || len(q.Accepts) != 2 || q.Accepts[1].Scheme != "exact" {
		t.Fatalf("the ways to pay are %+v", q.Accepts)
	}
	p := accept(t, q)
	p.UpTo, p.Spender, p.Facilitator = true, common.HexToAddress(upToProxy), common.HexToAddress(q.Accepts[0].Extra.Facilitator)
	return p
}

// TestPitfalls3To9And18WrongPermits: each is wrong in one thing, and is refused before the provider is called.
func TestPitfalls3To9And18WrongPermits(t *testing.T) {
	t.Parallel()
	c := startChain(t).withUpTo(t)
	g, p := serve(t, c, "")
	q := ask(t, g, chatBody(false))
	other := c.Deploy(t, "TestUSDC")
	for _, row := range []struct {
		pitfall string
		change  func(p *payment) // before it is signed
		after   func(p *payment)
		want    string
	}{
		{"3: the twin of a signature", nil, (*payment).twin, "invalid_permit2_signature"},
		{"4: signed for another chain", func(p *payment) { p.Chain = 8453 }, nil, "invalid_permit2_signature"},
		{"5: signed for another token", func(p *payment) { p.Contract = other }, nil, "permit2_token_mismatch"},
		{"6: the most that was signed", nil, func(p *payment) { p.Value++; p.Accepted.Amount = strconv.FormatInt(p.Value, 10) }, "invalid_permit2_signature"},
		{"6: the most that is named", nil, func(p *payment) { p.Accepted.Amount = "1" }, "permit2_amount_mismatch"},
		{"6: the payee", func(p *payment) { p.To = addressOf(payerKey) }, nil, "invalid_permit2_recipient_mismatch"},
		{"6: the spender", func(p *payment) { p.Spender = addressOf(payerKey) }, nil, "invalid_permit2_spender"},
		{"8: it ends too soon", func(p *payment) { p.ValidBefore = time.Now().Unix() + 60 }, nil, "permit2_deadline_expired"},
		{"18: another facilitator", func(p *payment) {
			p.Facilitator = addressOf(poorKey)
			p.Accepted.Extra.Facilitator = p.Facilitator.Hex()
		}, nil, "upto_facilitator_mismatch"},
		{"18: the facilitator that is named", nil, func(p *payment) { p.Accepted.Extra.Facilitator = addressOf(poorKey).Hex() }, "upto_facilitator_mismatch"},
		{"10: a payer without money", func(p *payment) { p.Key, p.From = poorKey, addressOf(poorKey) }, nil, "permit2_insufficient_balance"},
	} {
		t.Run(row.pitfall, func(t *testing.T) {
			pm := acceptUpTo(t, q)
			if row.change != nil {
				row.change(pm)
			}
			if pm.sign(t); row.after != nil {
				row.after(pm)
			}
			if got := reason(t, pm.send(t, g, chatBody(false))); got != row.want {
				t.Errorf("refused with %s, want %s", got, row.want)
			}
		})
	}
	c.mint(t, addressOf(poorKey), 1_000_000)
	pm := acceptUpTo(t, q)
	pm.Key, pm.From = poorKey, addressOf(poorKey)
	if got := pm.sign(t).send(t, g, chatBody(false)); got.Status != http.StatusPreconditionFailed || !strings.Contains(got.Body, "permit2_allowance_required") || got.Header.Get("Payment-Required") == "" {
		t.Errorf("without an approval: %d %s", got.Status, got.Body)
	}
	if n := len(p.Generations()); n != 0 {
		t.Errorf("the provider was called %d times", n)
	}
	c.approve(t, poorKey, 1_000_000)
	if got := pm.send(t, g, chatBody(false)); got.Status != http.StatusOK {
		t.Errorf("the same with it: %d %s", got.Status, got.Body)
	}
	if got := pm.send(t, g, chatBody(false)); got.Status != http.StatusConflict {
		t.Errorf("pitfall 9: the same again: %d %s", got.Status, got.Body)
	}
	settle(t, c, 1)
}

// TestPitfall18NobodyElseCanSettleAPermit: the contract refuses another sender, even of what the gateway itself would send.
func TestPitfall18NobodyElseCanSettleAPermit(t *testing.T) {
	t.Parallel()
	c := startChain(t).withUpTo(t)
	g, _ := serve(t, c, "")
	pm := acceptUpTo(t, ask(t, g, chatBody(false))).sign(t)
	data := call("settle(((address,uint256),uint256,uint256),uint256,address,(address,address,uint256),bytes)",
		pm.Contract[:], word(uint64(pm.Value)), pm.Nonce[:], word(uint64(pm.ValidBefore)), word(1000), pm.From[:], pm.To[:], pm.Facilitator[:], word(0), word(320), word(65),
		pm.Signature[:32], pm.Signature[32:64], append(pm.Signature[64:65:65], make([]byte, 31)...))
	refused := func(from common.Address) string {
		var out hexutil.Bytes
		err := c.RPC.CallContext(t.Context(), &out, "eth_call", map[string]any{"from": from, "to": upToProxy, "data": hexutil.Bytes(data)}, "latest")
		if err == nil {
			return ""
		}
		return err.Error()
	}
	if got := refused(addressOf(settlerKey)); got != "" {
		t.Fatalf("the facilitator itself: %s", got)
	}
	if got := refused(addressOf(payerKey)); !strings.Contains(got, hexOf(crypto.Keccak256([]byte("UnauthorizedFacilitator()"))[:4])) {
		t.Errorf("another sender: %q", got)
	}
}

// TestPitfall10And20APermitThatIsNotGoodAnyMore when its request was served is a loss: the payer burns the nonce, or takes the approval back.
func TestPitfall10And20APermitThatIsNotGoodAnyMore(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"the nonce is burned", "the approval is taken back"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			c := startChain(t).withUpTo(t)
			n := startNode(t, c)
			g, _ := serve(t, n.through(c), "")
			n.refused.Store("eth_estimateGas", true) // nothing is settled yet
			pm := acceptUpTo(t, ask(t, g, chatBody(true))).sign(t)
			if got := pm.send(t, g, chatBody(true)); got.Status != http.StatusOK {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			if way == "the nonce is burned" {
				bit := new(big.Int).Lsh(big.NewInt(1), uint(pm.Nonce[31]))
				at := common.HexToAddress(permit2)
				c.Send(t, pm.From, &at, call("invalidateUnorderedNonces(uint256,uint256)", append([]byte{0}, pm.Nonce[:31]...), bit.Bytes()))
			} else {
				c.approve(t, payerKey, 0)
			}
			c.Do(t, nil, "evm_increaseTime", 2000)
			c.Do(t, nil, "evm_mine")
			n.refused.Clear()
			waitLog(t, g, "a payment could not be settled")
			c.approve(t, payerKey, 1_000_000)
			next := acceptUpTo(t, ask(t, g, chatBody(false)))
			next.ValidBefore += 2000
			if got := next.sign(t).send(t, g, chatBody(false)); got.Status != http.StatusPaymentRequired || !strings.Contains(got.Body, "could not be settled") {
				t.Errorf("the wallet's next payment: %d %s", got.Status, got.Body)
			}
			g.AssertSound(t)
			settle(t, c, 0)
		})
	}
}

// waitLog waits until the gateway has logged something.
func waitLog(t *testing.T, g *gateway.Gateway, text string) {
	t.Helper()
	polltest.Until(t, text+", in the log", func() bool { return strings.Contains(g.Log(), text) })
}

// TestD54WithoutItsContractsUpToIsNotOffered, and is refused.
func TestD54WithoutItsContractsUpToIsNotOffered(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, _ := serve(t, c, "")
	q := ask(t, g, chatBody(false))
	if len(q.Accepts) != 1 || q.Accepts[0].Scheme != "exact" {
		t.Fatalf("offered %+v", q.Accepts)
	}
	pm := accept(t, q)
	pm.UpTo, pm.Spender, pm.Facilitator, pm.Accepted.Scheme = true, common.HexToAddress(upToProxy), addressOf(settlerKey), "upto"
	if got := reason(t, pm.sign(t).send(t, g, chatBody(false))); got != "unsupported_scheme" {
		t.Errorf("refused with %s", got)
	}
}
