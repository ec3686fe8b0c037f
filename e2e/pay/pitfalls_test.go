package pay

import (
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// settle waits until so many transfers have arrived, and makes sure that no more do.
func settle(t *testing.T, c *chain, n int) {
	t.Helper()
	polltest.Until(t, "the transfers", func() bool { return c.transfers(t) >= n })
	pause(t, time.Second) // more would arrive by then
	if got := c.transfers(t); got != n {
		t.Fatalf("%d transfers arrived, want %d", got, n)
	}
}

// TestPitfall1And2OnePaymentIsServedOnce: 500 requests with one payment at the same time are one call and one transfer, and so is one later, which is not
// told to pay again.
func TestPitfall1And2OnePaymentIsServedOnce(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	pm := accept(t, ask(t, g, chatBody(false))).sign(t)
	var served, replayed atomic.Int64
	var all sync.WaitGroup
	for range 500 {
		all.Go(func() {
			switch got := pm.send(t, g, chatBody(false)); got.Status {
			case http.StatusOK:
				served.Add(1)
			case http.StatusConflict:
				replayed.Add(1)
			default:
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
	all.Wait()
	settle(t, c, 1)
	if served.Load() != 1 || replayed.Load() != 499 || len(p.Generations()) != 1 {
		t.Errorf("%d served, %d replayed, %d calls", served.Load(), replayed.Load(), len(p.Generations()))
	}
	again := pm.send(t, g, chatBody(false))
	if again.Status != http.StatusConflict || !strings.Contains(again.Body, "payment_replayed") || again.Header.Get("Payment-Required") != "" || again.Header.Get("Payment-Response") == "" {
		t.Errorf("%d %s %v", again.Status, again.Body, again.Header)
	}
	if len(p.Generations()) != 1 {
		t.Error("a replay reached the provider")
	}
	g.AssertSound(t)
}

// TestPitfalls3To8WrongPayments: each payment is wrong in one thing, and is refused before the provider is called.
func TestPitfalls3To8WrongPayments(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	q := ask(t, g, chatBody(false))
	other := c.Deploy(t, "TestUSDC")
	cheap := ask(t, g, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Hello"}]}`)
	for _, row := range []struct {
		pitfall string
		change  func(p *payment) // before it is signed
		after   func(p *payment)
		want    string
	}{
		{"3: the twin of a signature", nil, (*payment).twin, "invalid_exact_evm_payload_signature"},
		{"4: signed for another chain", func(p *payment) { p.Chain = 8453 }, nil, "invalid_exact_evm_payload_signature"},
		{"4: another network is named", nil, func(p *payment) { p.Accepted.Network = "eip155:8453" }, "invalid_network"},
		{"5: signed for another token of the same name", func(p *payment) { p.Contract = other }, nil, "invalid_exact_evm_payload_signature"},
		{"5: another token is named", func(p *payment) { p.Contract, p.Accepted.Asset = other, other.Hex() }, nil, "invalid_payment_requirements"},
		{"6: the amount that is named", nil, func(p *payment) { p.Accepted.Amount = "1" }, "invalid_exact_evm_payload_authorization_value_mismatch"},
		{"6: the amount that was signed", nil, func(p *payment) { p.Value++; p.Accepted.Amount = fmt.Sprint(p.Value) }, "invalid_exact_evm_payload_signature"},
		{"6: too small an amount", func(p *payment) { p.Value--; p.Accepted.Amount = fmt.Sprint(p.Value) }, nil, "invalid_exact_evm_payload_authorization_value_mismatch"},
		{"6: the payee that is named", nil, func(p *payment) { p.Accepted.PayTo = addressOf(payerKey).Hex() }, "invalid_exact_evm_payload_recipient_mismatch"},
		{"6: the payee that was signed", func(p *payment) { p.To = addressOf(payerKey) }, nil, "invalid_exact_evm_payload_recipient_mismatch"},
		{"6: the scheme", nil, func(p *payment) { p.Accepted.Scheme = "deferred" }, "unsupported_scheme"},
		{"6: the token's domain", nil, func(p *payment) { p.Accepted.Extra.Name = "Other" }, "invalid_payment_requirements"},
		{"6: the time", nil, func(p *payment) { p.Accepted.MaxTimeoutSeconds = 1 }, "invalid_payment_requirements"},
		{"7: the quote of a cheaper request", func(p *payment) { *p = *accept(t, cheap) }, nil, "invalid_payment_requirements"},
		{"8: it ends before it can be settled", func(p *payment) { p.ValidBefore = time.Now().Unix() + 60 }, nil, "invalid_exact_evm_payload_authorization_valid_before"},
		{"8: it is not valid yet", func(p *payment) { p.ValidAfter = time.Now().Unix() + 60 }, nil, "invalid_exact_evm_payload_authorization_valid_after"},
		{"10: a payer without money", func(p *payment) { p.Key, p.From = poorKey, addressOf(poorKey) }, nil, "insufficient_funds"},
		{"22: a wallet that is not deployed", nil, func(p *payment) {
			p.Signature = append(p.Signature, common.FromHex(strings.Repeat("6492", 16))...)
		}, "unsupported_undeployed_wallet"},
	} {
		t.Run(row.pitfall, func(t *testing.T) {
			pm := accept(t, q)
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
	if n := len(p.Generations()); n != 0 {
		t.Errorf("the provider was called %d times", n)
	}
	old := accept(t, q)
	old.Version = 1
	if got := old.sign(t).send(t, g, chatBody(false)); got.Status != http.StatusOK {
		t.Errorf("the same without a mistake, in version 1: %d %s", got.Status, got.Body)
	}
	settle(t, c, 1)
}

// poorKey is of an account without tokens.
const poorKey = "5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"

// TestPitfall9NoncesBelongToTheirPayers: the nonce of one payer is free for another, and used for the first.
func TestPitfall9NoncesBelongToTheirPayers(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, _ := serve(t, c, "")
	c.mint(t, addressOf(poorKey), 1_000_000)
	q := ask(t, g, chatBody(false))
	first, second, third := accept(t, q), accept(t, q), accept(t, q)
	second.Key, second.From, second.Nonce = poorKey, addressOf(poorKey), first.Nonce
	third.Nonce, third.ValidBefore = first.Nonce, third.ValidBefore+1
	for i, pm := range []*payment{first, second} {
		if got := pm.sign(t).send(t, g, chatBody(false)); got.Status != http.StatusOK {
			t.Fatalf("payer %d: %d %s", i, got.Status, got.Body)
		}
	}
	if got := third.sign(t).send(t, g, chatBody(false)); got.Status != http.StatusConflict {
		t.Errorf("another authorization with the nonce: %d %s", got.Status, got.Body)
	}
	settle(t, c, 2)
}

// TestPitfall10APayerWhoEmptiesTheWallet during the answer is a loss that is booked, and owed. Its next payment pays for that, too, and is settled before the
// request is served.
func TestPitfall10APayerWhoEmptiesTheWallet(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}, FirstToken: 2 * time.Second})
	q := ask(t, g, chatBody(false))
	pm := accept(t, q).sign(t)
	answered := make(chan gateway.Answer, 1)
	go func() { answered <- pm.send(t, g, chatBody(false)) }()
	if _, err := p.WaitGenerations(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	payer := addressOf(payerKey)
	c.Send(t, payer, &c.Token, call("transfer(address,uint256)", []byte{0xdd}, big.NewInt(c.balance(t, payer)).Bytes()))
	c.Do(t, nil, "evm_increaseTime", 2000)
	c.Do(t, nil, "evm_mine")
	if got := <-answered; got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	wallet := "wallet_" + strings.ToLower(payer.Hex()[2:])
	for i := 0; creditOf(t, g, wallet) != 0; i++ {
		if i > 100 {
			t.Fatalf("the loss is not booked: the wallet has %d", creditOf(t, g, wallet))
		}
		pause(t, 200*time.Millisecond)
	}
	c.mint(t, payer, 1_000_000)
	const owed = usualCost + 1000
	wantOwed(t, g, wallet, owed)
	short := accept(t, q)
	short.ValidBefore += 2000
	if got := short.sign(t).send(t, g, chatBody(false)); reason(t, got) != "invalid_exact_evm_payload_authorization_value_mismatch" || !strings.Contains(got.Body, `"owed":0.004000`) {
		t.Errorf("the price without what is owed: %d %s", got.Status, got.Body)
	}
	next := accept(t, ask(t, g, chatBody(false), "X-Bardo-Wallet: "+payer.Hex()))
	if next.Value != short.Value+owed {
		t.Errorf("a price of %d, want %d and %d", next.Value, short.Value, owed)
	}
	next.ValidBefore += 2000
	p.Behave(fake.Behaviour{Status: http.StatusBadRequest})
	if got := next.sign(t).send(t, g, chatBody(false)); got.Status != http.StatusBadRequest {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	settle(t, c, 1)                                            // before it was known what the request costs
	if has := creditOf(t, g, wallet); has != next.Value-owed { // no fee, since nothing was served
		t.Errorf("the wallet has a credit of %d", has)
	}
	wantOwed(t, g, wallet, 0)
	g.AssertSound(t)
}

// TestPitfalls12And17WhatCostsNothingIsNotSettled: a provider that fails, and one that ends its stream at once, leave the payment to its payer, who can send it again.
func TestPitfalls12And17WhatCostsNothingIsNotSettled(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	pm := accept(t, ask(t, g, chatBody(false))).sign(t)
	p.Behave(fake.Behaviour{Status: http.StatusBadRequest})
	if got := pm.send(t, g, chatBody(false)); got.Status != http.StatusBadRequest {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	p.Behave(fake.Behaviour{Raw: &fake.Raw{Status: http.StatusOK, Header: []string{"Content-Type: text/event-stream"}}})
	if got := pm.send(t, g, chatBody(true)); got.Status == http.StatusOK {
		t.Fatalf("a stream of nothing: %d %s", got.Status, got.Body)
	}
	settle(t, c, 0)
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}})
	if got := pm.send(t, g, chatBody(false)); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cost") != "0.003000" {
		t.Fatalf("the same payment: %d %s", got.Status, got.Body)
	}
	settle(t, c, 1)
}

// TestPitfall19ContractWallets pay by ERC-1271, and none can use more than a bounded time, or another wallet's money.
func TestPitfall19ContractWallets(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	owner := addressOf(payerKey)
	q := ask(t, g, chatBody(false))
	fund := func(a common.Address) common.Address { c.mint(t, a, 1_000_000); return a }
	good := fund(c.Deploy(t, "SmartWallet", common.LeftPadBytes(owner[:], 32)))
	for mode := int64(2); mode <= 6; mode++ {
		pm := accept(t, q)
		pm.From = fund(c.Deploy(t, "EvilWallet", word(uint64(mode))))
		began := time.Now()
		if got := reason(t, pm.sign(t).send(t, g, chatBody(false))); got != "invalid_exact_evm_payload_signature" || time.Since(began) > 10*time.Second {
			t.Errorf("mode %d: %s after %s", mode, got, time.Since(began))
		}
	}
	if n := len(p.Generations()); n != 0 {
		t.Errorf("the provider was called %d times", n)
	}
	pm := accept(t, q)
	pm.From = good
	if got := pm.sign(t).send(t, g, chatBody(false)); got.Status != http.StatusOK {
		t.Errorf("a good wallet: %d %s", got.Status, got.Body)
	}
	settle(t, c, 1)
	if left := c.balance(t, good); left != 1_000_000-pm.Value {
		t.Errorf("the wallet has %d", left)
	}
	c.Send(t, addressOf(settlerKey), &good, call("rotate(address)", []byte{1})) // pitfall 20
	late := accept(t, q)
	late.From = good
	if got := reason(t, late.sign(t).send(t, g, chatBody(false))); got != "invalid_exact_evm_payload_signature" {
		t.Errorf("after the owner changed: %s", got)
	}
}

// TestPitfall27And28HeadersStayWhereTheyBelong: a provider's payment headers do not reach the client, nor a client's payment the provider; a payment comes
// before a key, and one that is refused is not made up for by the key.
func TestPitfall27And28HeadersStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	p.Behave(fake.Behaviour{Raw: &fake.Raw{
		Status: http.StatusOK,
		Header: []string{"Content-Type: application/json", "Settlement-Overrides: {}", "PAYMENT-RESPONSE: e30=", "X-PAYMENT-RESPONSE: e30=", "PAYMENT-REQUIRED: e30="},
		Body: `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],` +
			`"usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150}}`,
	}})
	q := ask(t, g, chatBody(false))
	pm := accept(t, q).sign(t)
	key := "Authorization: Bearer " + g.Key
	got := pm.send(t, g, chatBody(false), key)
	if got.Status != http.StatusOK || len(got.Header.Values("Payment-Response")) != 1 || got.Header.Get("Payment-Response") == "e30=" || got.Header.Get("Settlement-Overrides") != "" || got.Header.Get("Payment-Required") != "" {
		t.Errorf("%d %v", got.Status, got.Header)
	}
	for _, r := range p.Generations() {
		for name := range r.Header {
			if n := strings.ToLower(name); strings.Contains(n, "payment") {
				t.Errorf("the provider got %s", name)
			}
		}
	}
	settle(t, c, 1)
	if got := accept(t, q).sign(t).send(t, g, chatBody(false), "X-Bardo-Route: explain"); got.Status != http.StatusUnauthorized {
		t.Errorf("a payment in the place of a key: %d %s", got.Status, got.Body)
	}
	wrong := accept(t, q).sign(t)
	wrong.twin()
	if got := reason(t, wrong.send(t, g, chatBody(false), key)); got != "invalid_exact_evm_payload_signature" {
		t.Errorf("with a key beside it: %s", got)
	}
	if got := g.Do(t, gateway.Call{NoKey: true, Path: "/v1/chat/completions", Body: chatBody(false), Header: []string{"Authorization: Bearer sk-other"}}); got.Status != http.StatusUnauthorized {
		t.Errorf("an unknown key is not asked to pay: %d", got.Status)
	}
}

// TestPitfall29WhatCannotBeReadIsABadRequest, in the client's format.
func TestPitfall29WhatCannotBeReadIsABadRequest(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, _ := serve(t, c, "")
	for _, text := range []string{"%", "bm90IGpzb24=", strings.Repeat("QUFB", 6000), "e30=", "eyJ4NDAyVmVyc2lvbiI6Mn0="} {
		for _, name := range []string{"PAYMENT-SIGNATURE", "X-PAYMENT"} {
			got := g.Do(t, gateway.Call{NoKey: true, Path: "/v1/chat/completions", Body: chatBody(false), Header: []string{name + ": " + text}})
			if got.Status != http.StatusBadRequest && got.Status != http.StatusPaymentRequired || !json.Valid([]byte(got.Body)) {
				t.Errorf("%s %.20s: %d %s", name, text, got.Status, got.Body)
			}
		}
	}
}

// node stands between the gateway and the chain, and refuses methods.
type node struct {
	URL      string
	refused  sync.Map
	refusals atomic.Int64
}

func startNode(t *testing.T, c *chain) *node {
	t.Helper()
	n := &node{}
	client := &http.Client{Timeout: 20 * time.Second}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var m struct{ Method string }
		_ = json.Unmarshal(body, &m)
		if _, ok := n.refused.Load(m.Method); ok {
			n.refusals.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, c.URL, strings.NewReader(string(body)))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, resp.Body)
		_ = resp.Body.Close()
	}))
	t.Cleanup(s.Close)
	n.URL = s.URL
	return n
}

// through is the chain as the gateway sees it.
func (n *node) through(c *chain) *chain {
	seen := *c.Chain
	seen.URL = n.URL
	return &chain{Chain: &seen, Token: c.Token}
}

// TestPitfall15AnUnknownOutcomeIsNeverPaidTwice: the node does not say what became of the transfer. The client is told so, a repetition is not asked to pay
// again, and the transfer is found later.
func TestPitfall15AnUnknownOutcomeIsNeverPaidTwice(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	n := startNode(t, c)
	g, _ := serve(t, n.through(c), "")
	n.refused.Store("eth_getTransactionReceipt", true)
	pm := accept(t, ask(t, g, chatBody(true))).sign(t)
	if got := pm.send(t, g, chatBody(true)); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	got := pm.send(t, g, chatBody(true))
	if s := settlementOf(t, got); got.Status != http.StatusConflict || s.Success || s.ErrorReason != "settlement_pending" {
		t.Errorf("%d, %+v", got.Status, s)
	}
	n.refused.Clear()
	settle(t, c, 1)
	waitSettled(t, g, pm, chatBody(true))
}

// settlementOf is what an answer says of its payment.
func settlementOf(t *testing.T, a gateway.Answer) (s struct {
	Success     bool
	Transaction string
	ErrorReason string
},
) {
	t.Helper()
	decode(t, a.Header.Get("Payment-Response"), &s)
	return s
}

// waitSettled sends a payment that was used until the gateway says that it has arrived.
func waitSettled(t *testing.T, g *gateway.Gateway, pm *payment, body string) {
	t.Helper()
	polltest.Until(t, "that the payment has arrived", func() bool { return settlementOf(t, pm.send(t, g, body)).Success })
}

// TestPitfall16AReorganisedChain takes a confirmed transfer away: it is sent again.
func TestPitfall16AReorganisedChain(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, _ := serve(t, c, "")
	pm := accept(t, ask(t, g, chatBody(false))).sign(t)
	if got := pm.send(t, g, chatBody(false)); !settlementOf(t, got).Success {
		t.Fatalf("%d %s %v", got.Status, got.Body, got.Header)
	}
	settle(t, c, 1)
	c.Do(t, nil, "anvil_rollback", 1)
	c.Do(t, nil, "anvil_dropAllTransactions")
	if c.transfers(t) != 0 {
		t.Log("the transfer was mined again at once")
	}
	settle(t, c, 1)
	waitSettled(t, g, pm, chatBody(false))
}

// TestPitfall7APriceWithAKeyOfTheCallersOwn: with a provider's key of the caller's own, a request costs the fee alone. That price is not taken for the same
// request on the operator's account.
func TestPitfall7APriceWithAKeyOfTheCallersOwn(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	p := fake.Start(t, fake.Config{Vendor: fake.OpenRouter, Key: "sk-or-own"})
	g := gateway.Run(t, gateway.Options{
		Config:    c.config(""),
		Providers: []gateway.Provider{{ID: "openrouter", Fake: p, Models: []gateway.Model{{ID: "m", Upstream: "acme/m", Price: "{input: 10, output: 40}"}}, More: "byok: true"}},
	})
	const own = "X-Bardo-Upstream-Key: sk-or-own"
	cheap := ask(t, g, chatBody(false), own)
	if least, most := accept(t, cheap).Value, accept(t, ask(t, g, chatBody(false))).Value; least >= most {
		t.Fatalf("a key of one's own makes it %d, from %d", least, most)
	}
	if got := reason(t, accept(t, cheap).sign(t).send(t, g, chatBody(false))); got != "invalid_payment_requirements" {
		t.Errorf("without the key: %s", got)
	}
	if n := len(p.Generations()); n != 0 {
		t.Errorf("the provider was called %d times", n)
	}
	if got := accept(t, cheap).sign(t).send(t, g, chatBody(false), own); got.Status != http.StatusOK {
		t.Errorf("with it: %d %s", got.Status, got.Body)
	}
}
