// Package anvil runs a chain of a test's own, by the program anvil, and deploys contracts on it. build.mjs compiles them. Only tests below e2e import it.
package anvil

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
)

// The first of the accounts that anvil gives coins to, and knows the keys of, as hexadecimal digits.
const (
	Key0 = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	Key1 = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
	Key2 = "5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"
	Key3 = "7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"
)

// Chain is a running chain with the id of Base Sepolia.
type Chain struct {
	URL string
	RPC *rpc.Client

	code map[string]string // of contracts, by their names
}

// Start starts a chain, which ends with the test. contracts is a file of bytecode that build.mjs wrote.
func Start(t testing.TB, contracts string) *Chain {
	t.Helper()
	root, err := proctest.Root()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(root, ".tools", "pay", "node_modules", "@foundry-rs", "anvil-*", "bin", "anvil"))
	if err != nil || len(found) == 0 {
		t.Fatal("there is no anvil: make sdks installs it")
	}
	c := &Chain{}
	c.Load(t, contracts)
	c.run(t, found[0])
	if c.RPC, err = rpc.DialContext(t.Context(), c.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.RPC.Close)
	return c
}

// Load adds the contracts of a file to those that can be deployed.
func (c *Chain) Load(t testing.TB, contracts string) {
	t.Helper()
	file, err := os.ReadFile(contracts)
	if err == nil {
		err = json.Unmarshal(file, &c.code)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// run starts the program, and waits until it says where it listens.
func (c *Chain) run(t testing.TB, program string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "--port", "0", "--chain-id", "84532")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := proctest.Start(cmd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for s := bufio.NewScanner(out); c.URL == "" && s.Scan(); {
		if _, at, ok := strings.Cut(s.Text(), "Listening on "); ok {
			c.URL = "http://" + strings.TrimSpace(at)
		}
	}
	if c.URL == "" {
		t.Fatal("anvil does not say where it listens")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
}

// Do asks the node, and fails the test if it refuses.
func (c *Chain) Do(t testing.TB, out any, method string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.RPC.CallContext(ctx, out, method, args...); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
}

// Deploy deploys a contract by its name, with the arguments of its constructor, one behind the other.
func (c *Chain) Deploy(t testing.TB, name string, args ...[]byte) common.Address {
	t.Helper()
	code, ok := c.code[name]
	if !ok {
		t.Fatalf("there is no contract %s", name)
	}
	data := common.FromHex(code)
	for _, a := range args {
		data = append(data, a...)
	}
	return *c.Send(t, Address(Key(Key0)), nil, data).Contract
}

// Receipt is the outcome of a transaction.
type Receipt struct {
	Status   hexutil.Uint64  `json:"status"`
	Contract *common.Address `json:"contractAddress"`
}

// Send sends a transaction of an account that the node has the key of, or impersonates, and waits for it; to a new contract if to is nil.
func (c *Chain) Send(t testing.TB, from common.Address, to *common.Address, data []byte) Receipt {
	t.Helper()
	tx := map[string]any{"from": from, "data": hexutil.Bytes(data)}
	if to != nil {
		tx["to"] = to
	}
	var hash common.Hash
	c.Do(t, &hash, "eth_sendTransaction", tx)
	var got *Receipt
	polltest.Until(t, "the transaction is in a block", func() bool {
		c.Do(t, &got, "eth_getTransactionReceipt", hash)
		return got != nil
	})
	if got.Status != 1 {
		t.Fatalf("transaction %s failed", hash)
	}
	return *got
}

// Key reads a private key of hexadecimal digits.
func Key(digits string) *ecdsa.PrivateKey {
	k, err := crypto.HexToECDSA(digits)
	if err != nil {
		panic(err)
	}
	return k
}

// Address is the account of a key.
func Address(k *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(k.PublicKey) }
