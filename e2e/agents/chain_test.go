package agents

import (
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"bardo.money/gateway/e2e/anvil"
)

// chain is an anvil of a test's own, with the registries.
type chain struct {
	*anvil.Chain

	Identities, Reputation common.Address
}

// Accounts that anvil gives coins to.
var (
	deployer = anvil.Key(anvil.Key0)
	ada      = anvil.Key(anvil.Key1)
	bob      = anvil.Key(anvil.Key2)
	reviewer = anvil.Key(anvil.Key3)
)

func startChain(t testing.TB) *chain {
	t.Helper()
	c := &chain{Chain: anvil.Start(t, "contracts/contracts.json")}
	c.Identities = c.Deploy(t, "IdentityRegistry")
	c.Reputation = c.Deploy(t, "ReputationRegistry", common.LeftPadBytes(c.Identities[:], 32))
	return c
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
	c.Do(t, &out, "eth_call", map[string]any{"from": owner, "to": c.Identities, "data": hexutil.Bytes(data)}, "latest")
	c.Send(t, owner, &c.Identities, data)
	return new(big.Int).SetBytes(out).Int64()
}

// registerFor makes an agent of a contract wallet, which runs what it is told to.
func (c *chain) registerFor(t testing.TB, wallet common.Address) int64 {
	t.Helper()
	var out hexutil.Bytes
	inner := call(t, "register()")
	c.Do(t, &out, "eth_call", map[string]any{"from": wallet, "to": c.Identities, "data": hexutil.Bytes(inner)}, "latest")
	c.Send(t, anvil.Address(deployer), &wallet, call(t, "run(address,bytes)", c.Identities, inner))
	return new(big.Int).SetBytes(out).Int64()
}

// review gives feedback to an agent, several times.
func (c *chain) review(t testing.TB, from common.Address, agent, value int64, times int) {
	t.Helper()
	data := call(t, "giveFeedback(uint256,int128,uint8,string,string,string,string,bytes32)", big.NewInt(agent), big.NewInt(value), uint8(0), "quality", "", "", "", [32]byte{})
	c.Do(t, nil, "evm_setAutomine", false)
	tx := map[string]any{"from": from, "to": c.Reputation, "data": hexutil.Bytes(data), "gas": hexutil.Uint64(300_000)}
	for range times {
		c.Do(t, new(common.Hash), "eth_sendTransaction", tx)
	}
	c.Do(t, nil, "evm_setAutomine", true)
	c.Do(t, nil, "evm_mine")
	for c.count(t, from, agent) < times {
		c.Do(t, nil, "evm_mine")
	}
}

// count is how often somebody reviewed an agent.
func (c *chain) count(t testing.TB, from common.Address, agent int64) int {
	t.Helper()
	var out hexutil.Bytes
	data := call(t, "getSummary(uint256,address[],string,string)", big.NewInt(agent), []common.Address{from}, "", "")
	c.Do(t, &out, "eth_call", map[string]any{"to": c.Reputation, "data": hexutil.Bytes(data)}, "latest")
	return int(new(big.Int).SetBytes(out[:32]).Int64())
}
