package pay

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"bardo.money/gateway/internal/polltest"
)

// TestPitfall21ASignatureIsOfOneWallet: two wallets of one owner. What was signed for one does not pay from the other.
func TestPitfall21ASignatureIsOfOneWallet(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	owner := addressOf(payerKey)
	var wallets [2]common.Address
	for i := range wallets {
		wallets[i] = c.Deploy(t, "SmartWallet", common.LeftPadBytes(owner[:], 32))
		c.mint(t, wallets[i], 1_000_000)
	}
	pm := accept(t, ask(t, g, chatBody(false)))
	pm.From = wallets[0]
	pm.sign(t)
	pm.From = wallets[1]
	if got := reason(t, pm.send(t, g, chatBody(false))); got != "invalid_exact_evm_payload_signature" {
		t.Errorf("from the other wallet: %s", got)
	}
	if n := len(p.Generations()); n != 0 {
		t.Errorf("the provider was called %d times", n)
	}
	pm.From = wallets[0]
	if got := pm.send(t, g, chatBody(false)); got.Status != http.StatusOK {
		t.Errorf("from its own: %d %s", got.Status, got.Body)
	}
	settle(t, c, 1)
	if c.balance(t, wallets[1]) != 1_000_000 {
		t.Error("the other wallet paid")
	}
}

// TestPitfall22AccountsWithCode (EIP-7702): their own signature is looked at first, and then the token decides, which asks their code.
func TestPitfall22AccountsWithCode(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	payer := addressOf(payerKey)
	code := func(name string, args []byte) (b hexutil.Bytes) {
		c.Do(t, &b, "eth_getCode", c.Deploy(t, name, args), "latest")
		return b
	}
	slot := func(v []byte) {
		c.Do(t, nil, "anvil_setStorageAt", payer, common.Hash{}, common.BytesToHash(v))
	}
	c.Do(t, nil, "anvil_setCode", payer, code("EvilWallet", word(4)))
	slot(word(4)) // it reverts
	if got := reason(t, accept(t, ask(t, g, chatBody(false))).sign(t).send(t, g, chatBody(false))); got != "invalid_transaction_state" {
		t.Errorf("code that refuses: %s", got)
	}
	if n := len(p.Generations()); n != 0 {
		t.Errorf("the provider was called %d times", n)
	}
	c.Do(t, nil, "anvil_setCode", payer, code("SmartWallet", common.LeftPadBytes(payer[:], 32)))
	slot(payer[:])
	if got := accept(t, ask(t, g, chatBody(false))).sign(t).send(t, g, chatBody(false)); got.Status != http.StatusOK {
		t.Errorf("code that agrees: %d %s", got.Status, got.Body)
	}
	settle(t, c, 1)
}

// burner is the code of a contract wallet that says yes to everything, after it has used 2.6 million units of gas.
const burner = "0x620186a05b6001900380600457631626ba7e60e01b60005260206000f3"

// TestPitfall19ASettlementHasItsGas: a wallet's contract needs little when its payment is verified, and much when it is settled. That is not paid for: the payment is a loss, which its wallet owes.
func TestPitfall19ASettlementHasItsGas(t *testing.T) {
	t.Parallel()
	c := startChain(t).withUpTo(t)
	n := startNode(t, c)
	g, _ := serve(t, n.through(c), "")
	owner := addressOf(payerKey)
	wallet := c.Deploy(t, "SmartWallet", common.LeftPadBytes(owner[:], 32))
	c.mint(t, wallet, 1_000_000)
	n.refused.Store("eth_estimateGas", true) // nothing is settled yet
	q := ask(t, g, chatBody(true))
	q.Accepts = q.Accepts[1:]
	pm := accept(t, q)
	pm.From = wallet
	if got := pm.sign(t).send(t, g, chatBody(true)); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	c.Do(t, nil, "anvil_setCode", wallet, burner)
	n.refused.Clear()
	polltest.Until(t, "an attempt to settle it", func() bool { return strings.Contains(g.Bardo(t, "payments", "--json"), "failed_attempts") })
	c.Do(t, nil, "evm_increaseTime", 2000)
	c.Do(t, nil, "evm_mine")
	wantOwed(t, g, "wallet_"+strings.ToLower(wallet.Hex()[2:]), usualCost+1000)
	settle(t, c, 0)
	g.AssertSound(t)
}
