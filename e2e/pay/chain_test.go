package pay

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"
)

// tools is where make installs the chain and the clients.
const tools = "../../.tools"

// chain is an anvil of a test's own, with a token.
type chain struct {
	URL   string
	rpc   *rpc.Client
	Token common.Address
}

// Accounts that anvil gives coins to: whoever settles, and payers.
const (
	settlerKey = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	payerKey   = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
	payTo      = "0x00000000000000000000000000000000000000aa"
)

func startChain(t testing.TB) *chain {
	t.Helper()
	found, err := filepath.Glob(tools + "/pay/node_modules/@foundry-rs/anvil-*/bin/anvil")
	if err != nil || len(found) == 0 {
		t.Fatal("there is no anvil: make sdks installs it")
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), found[0], "--port", "0", "--chain-id", "84532")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	c := &chain{}
	for s := bufio.NewScanner(out); c.URL == "" && s.Scan(); {
		if _, at, ok := strings.Cut(s.Text(), "Listening on "); ok {
			c.URL = "http://" + strings.TrimSpace(at)
		}
	}
	go drain(out)
	if c.rpc, err = rpc.Dial(c.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.rpc.Close)
	c.Token = c.deploy(t, "TestUSDC", nil)
	c.mint(t, addressOf(payerKey), 1_000_000_000)
	return c
}

func drain(r interface{ Read([]byte) (int, error) }) {
	b := make([]byte, 4096)
	for {
		if _, err := r.Read(b); err != nil {
			return
		}
	}
}

// do asks the node, and fails the test if it refuses.
func (c *chain) do(t testing.TB, out any, method string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.rpc.CallContext(ctx, out, method, args...); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
}

// deploy deploys one of contracts.sol.
func (c *chain) deploy(t testing.TB, name string, args []byte) common.Address {
	t.Helper()
	file, err := os.ReadFile("contracts/contracts.json")
	if err != nil {
		t.Fatal(err)
	}
	var code map[string]string
	if err := json.Unmarshal(file, &code); err != nil {
		t.Fatal(err)
	}
	r := c.send(t, "", append(common.FromHex(code[name]), args...))
	return *r.Contract
}

type receipt struct {
	Status   hexutil.Uint64  `json:"status"`
	Contract *common.Address `json:"contractAddress"`
	Hash     common.Hash     `json:"transactionHash"`
}

// send sends a transaction of the settling account and waits for it; to a new contract if to is "".
func (c *chain) send(t testing.TB, to string, data []byte) (r receipt) {
	t.Helper()
	return c.sendAs(t, addressOf(settlerKey), to, data)
}

func (c *chain) sendAs(t testing.TB, from common.Address, to string, data []byte) (r receipt) {
	t.Helper()
	tx := map[string]any{"from": from, "data": hexutil.Bytes(data)}
	if to != "" {
		tx["to"] = to
	}
	var hash common.Hash
	c.do(t, &hash, "eth_sendTransaction", tx)
	for {
		var got *receipt
		c.do(t, &got, "eth_getTransactionReceipt", hash)
		if got != nil {
			if got.Status != 1 {
				t.Fatalf("transaction %s failed", hash)
			}
			return *got
		}
		pause(t, 20*time.Millisecond)
	}
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
	c.send(t, c.Token.Hex(), call("mint(address,uint256)", to[:], big.NewInt(amount).Bytes()))
}

// balance is what an address has of the token.
func (c *chain) balance(t testing.TB, of common.Address) int64 {
	t.Helper()
	var out hexutil.Bytes
	c.do(t, &out, "eth_call", map[string]any{"to": c.Token, "data": hexutil.Bytes(call("balanceOf(address)", of[:]))}, "latest")
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
	c.do(t, &logs, "eth_getLogs", map[string]any{
		"fromBlock": "0x0", "address": c.Token,
		"topics": []any{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)")), nil, common.HexToHash("0x" + strings.Repeat("0", 24) + payTo[2:])},
	})
	return len(logs)
}

func addressOf(key string) common.Address {
	k, err := crypto.HexToECDSA(key)
	if err != nil {
		panic(err)
	}
	return crypto.PubkeyToAddress(k.PublicKey)
}

func word(n uint64) []byte { return common.LeftPadBytes(new(big.Int).SetUint64(n).Bytes(), 32) }

func hexOf(b []byte) string { return "0x" + hex.EncodeToString(b) }

func (c *chain) config(more string) string {
	return fmt.Sprintf(`limits: {rpm: 0}
routing: {ping_interval: 1h, timeouts: {connect: 20s, first_token: 50s, first_token_reasoning: 50s, idle: 50s, total: 2m}}
billing: {x402: {network: base-sepolia, rpc: '%s', pay_to: '%s', asset: '%s', settlement_key: '%s', settle_wait: 20s%s}}
`, c.URL, payTo, c.Token.Hex(), settlerKey, more)
}
