package pay

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"bardo.money/gateway/e2e/anvil"
)

// tools is where make installs the clients.
const tools = "../../.tools"

// chain is an anvil of a test's own, with a token.
type chain struct {
	*anvil.Chain

	Token common.Address
}

// Accounts that anvil gives coins to: whoever settles, and payers.
const (
	settlerKey = anvil.Key0
	payerKey   = anvil.Key1
	payTo      = "0x00000000000000000000000000000000000000aa"
)

func startChain(t testing.TB) *chain {
	t.Helper()
	c := &chain{Chain: anvil.Start(t, "contracts/contracts.json")}
	c.Token = c.Deploy(t, "TestUSDC")
	c.mint(t, addressOf(payerKey), 1_000_000_000)
	return c
}

// pause waits: other processes are what is waited for.
func pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal("the test has ended")
	}
}

func call(signature string, words ...[]byte) []byte {
	b := crypto.Keccak256([]byte(signature))[:4]
	for _, w := range words {
		b = append(b, common.LeftPadBytes(w, 32)...)
	}
	return b
}

func (c *chain) mint(t testing.TB, to common.Address, amount int64) {
	t.Helper()
	c.Send(t, addressOf(settlerKey), &c.Token, call("mint(address,uint256)", to[:], big.NewInt(amount).Bytes()))
}

// balance is what an address has of the token.
func (c *chain) balance(t testing.TB, of common.Address) int64 {
	t.Helper()
	var out hexutil.Bytes
	c.Do(t, &out, "eth_call", map[string]any{"to": c.Token, "data": hexutil.Bytes(call("balanceOf(address)", of[:]))}, "latest")
	return new(big.Int).SetBytes(out).Int64()
}

// received is what the operator has.
func (c *chain) received(t testing.TB) int64 {
	t.Helper()
	return c.balance(t, common.HexToAddress(payTo))
}

// transfers counts the token's transfers to the operator.
func (c *chain) transfers(t testing.TB) int {
	t.Helper()
	var logs []json.RawMessage
	c.Do(t, &logs, "eth_getLogs", map[string]any{
		"fromBlock": "0x0", "address": c.Token,
		"topics": []any{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)")), nil, common.HexToHash("0x" + strings.Repeat("0", 24) + payTo[2:])},
	})
	return len(logs)
}

func addressOf(key string) common.Address { return anvil.Address(anvil.Key(key)) }

func word(n uint64) []byte { return common.LeftPadBytes(new(big.Int).SetUint64(n).Bytes(), 32) }

func hexOf(b []byte) string { return "0x" + hex.EncodeToString(b) }

func (c *chain) config(more string) string {
	return fmt.Sprintf(`limits: {rpm: 0}
routing: {ping_interval: 1h, timeouts: {connect: 20s, first_token: 50s, first_token_reasoning: 50s, idle: 50s, total: 2m}}
billing: {x402: {network: base-sepolia, rpc: '%s', pay_to: '%s', asset: '%s', settlement_key: '%s', settle_wait: 20s%s}}
`, c.URL, payTo, c.Token.Hex(), settlerKey, more)
}
