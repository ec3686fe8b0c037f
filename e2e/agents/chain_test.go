package agents

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"
)

// tools is where make installs the chain.
const tools = "../../.tools"

// chain is an anvil of a test's own, with the registries.
type chain struct {
	URL                    string
	Identities, Reputation common.Address

	rpc *rpc.Client
}

// Accounts that anvil gives coins to.
var (
	deployer = key("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
	ada      = key("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d")
	bob      = key("5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a")
	reviewer = key("7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6")
)

func key(digits string) *ecdsa.PrivateKey {
	k, err := crypto.HexToECDSA(digits)
	if err != nil {
		panic(err)
	}
	return k
}

func addressOf(k *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(k.PublicKey) }

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
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if c.rpc, err = rpc.DialContext(t.Context(), c.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.rpc.Close)
	c.Identities = c.deploy(t, "IdentityRegistry")
	c.Reputation = c.deploy(t, "ReputationRegistry", common.LeftPadBytes(c.Identities[:], 32)...)
	return c
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
func (c *chain) deploy(t testing.TB, name string, args ...byte) common.Address {
	t.Helper()
	file, err := os.ReadFile("contracts/contracts.json")
	if err != nil {
		t.Fatal(err)
	}
	var code map[string]string
	if err := json.Unmarshal(file, &code); err != nil {
		t.Fatal(err)
	}
	return *c.send(t, addressOf(deployer), nil, append(common.FromHex(code[name]), args...)).Contract
}

type receipt struct {
	Status   hexutil.Uint64  `json:"status"`
	Contract *common.Address `json:"contractAddress"`
}

// send sends a transaction and waits for it; to a new contract if to is nil.
func (c *chain) send(t testing.TB, from common.Address, to *common.Address, data []byte) receipt {
	t.Helper()
	tx := map[string]any{"from": from, "data": hexutil.Bytes(data)}
	if to != nil {
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
		select {
		case <-time.After(20 * time.Millisecond): // another process is waited for
		case <-t.Context().Done():
			t.Fatal("the test has ended")
		}
	}
}

// call is a call's data. Types are those of Solidity, as in "transfer(address,uint256)".
func call(t testing.TB, signature string, values ...any) []byte {
	t.Helper()
	_, types, _ := strings.Cut(strings.TrimSuffix(signature, ")"), "(")
	var args abi.Arguments
	for name := range strings.SplitSeq(types, ",") {
		if name == "" {
			continue
		}
		typ, err := abi.NewType(name, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, abi.Argument{Type: typ})
	}
	packed, err := args.Pack(values...)
	if err != nil {
		t.Fatal(err)
	}
	return append(crypto.Keccak256([]byte(signature))[:4], packed...)
}

// register makes an agent, and returns its id.
func (c *chain) register(t testing.TB, owner common.Address) int64 {
	t.Helper()
	var out hexutil.Bytes
	data := call(t, "register()")
	c.do(t, &out, "eth_call", map[string]any{"from": owner, "to": c.Identities, "data": hexutil.Bytes(data)}, "latest")
	c.send(t, owner, &c.Identities, data)
	return new(big.Int).SetBytes(out).Int64()
}

// registerFor makes an agent of a contract wallet, which runs what it is told to.
func (c *chain) registerFor(t testing.TB, wallet common.Address) int64 {
	t.Helper()
	var out hexutil.Bytes
	inner := call(t, "register()")
	c.do(t, &out, "eth_call", map[string]any{"from": wallet, "to": c.Identities, "data": hexutil.Bytes(inner)}, "latest")
	c.send(t, addressOf(deployer), &wallet, call(t, "run(address,bytes)", c.Identities, inner))
	return new(big.Int).SetBytes(out).Int64()
}

// review gives feedback to an agent, several times.
func (c *chain) review(t testing.TB, from common.Address, agent, value int64, times int) {
	t.Helper()
	data := call(t, "giveFeedback(uint256,int128,uint8,string,string,string,string,bytes32)", big.NewInt(agent), big.NewInt(value), uint8(0), "quality", "", "", "", [32]byte{})
	c.do(t, nil, "evm_setAutomine", false)
	tx := map[string]any{"from": from, "to": c.Reputation, "data": hexutil.Bytes(data), "gas": hexutil.Uint64(300_000)}
	for range times {
		c.do(t, new(common.Hash), "eth_sendTransaction", tx)
	}
	c.do(t, nil, "evm_setAutomine", true)
	c.do(t, nil, "evm_mine")
	for c.count(t, from, agent) < times {
		c.do(t, nil, "evm_mine")
	}
}

// count is how often somebody reviewed an agent.
func (c *chain) count(t testing.TB, from common.Address, agent int64) int {
	t.Helper()
	var out hexutil.Bytes
	data := call(t, "getSummary(uint256,address[],string,string)", big.NewInt(agent), []common.Address{from}, "", "")
	c.do(t, &out, "eth_call", map[string]any{"to": c.Reputation, "data": hexutil.Bytes(data)}, "latest")
	return int(new(big.Int).SetBytes(out[:32]).Int64())
}
