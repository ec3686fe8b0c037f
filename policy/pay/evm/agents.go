package evm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"sync/atomic"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/typed"
)

// Agents reads the registries of agents (ERC-8004). Safe for concurrent use.
type Agents struct {
	o       identity.NodeOptions
	rpc     *rpc.Client
	eth     *ethclient.Client
	checked atomic.Bool // Check has succeeded
}

var _ identity.Chain = (*Agents)(nil)

// registryGas is the gas limit of calls to contracts that are only read.
const registryGas = 10_000_000

var errAnswer = errors.New("a contract answered something else than expected")

var (
	ownerOf        = typed.Selector("ownerOf(uint256)")
	getAgentWallet = typed.Selector("getAgentWallet(uint256)")
	getSummary     = typed.Selector("getSummary(uint256,address[],string,string)")
	getRegistry    = typed.Selector("getIdentityRegistry()")
)

// OpenAgents returns the client of a node. It makes no call yet.
func OpenAgents(ctx context.Context, o identity.NodeOptions) (*Agents, error) {
	c, err := dial(ctx, o.URL)
	if err != nil {
		return nil, err
	}
	return &Agents{o: o, rpc: c, eth: ethclient.NewClient(c)}, nil
}

// Check implements identity.Chain.
func (n *Agents) Check(ctx context.Context) error {
	if n.checked.Load() {
		return nil
	}
	r := &n.o.Realm
	id, err := n.eth.ChainID(ctx)
	if err != nil {
		return fmt.Errorf("the node of %s cannot be asked: %w", r.Network, scrub(err))
	}
	if !id.IsUint64() || id.Uint64() != r.Network.ID {
		return &pay.Mismatch{Detail: fmt.Sprintf("the node is of chain %s, and the network is %s", id, r.Network)}
	}
	code, err := n.eth.CodeAt(ctx, common.Address(r.Registry), nil)
	if err != nil {
		return scrub(err)
	}
	if len(code) == 0 {
		return &pay.Mismatch{Detail: fmt.Sprintf("there is no registry of identities at %s on %s", r.Registry, r.Network)}
	}
	if err := n.checkReputation(ctx); err != nil {
		return err
	}
	n.checked.Store(true)
	return nil
}

// checkReputation verifies that the reputation registry belongs to the identity registry.
func (n *Agents) checkReputation(ctx context.Context) error {
	if n.o.Reputation == (pay.Address{}) {
		return nil
	}
	at := common.Address(n.o.Reputation)
	out, err := n.eth.CallContract(ctx, ethereum.CallMsg{To: &at, Gas: registryGas, Data: getRegistry}, nil)
	if _, refused := errors.AsType[rpc.Error](err); err != nil && !refused {
		return scrub(err)
	}
	if err != nil || !bytes.Equal(out, typed.Address(n.o.Realm.Registry)) {
		return &pay.Mismatch{Detail: fmt.Sprintf("the contract %s is not the reputation registry of %s", n.o.Reputation, n.o.Realm.Registry)}
	}
	return nil
}

// Agent implements identity.Chain.
func (n *Agents) Agent(ctx context.Context, id pay.Word) (a identity.Agent, err error) {
	var owner, wallet hexutil.Bytes
	batch := []rpc.BatchElem{n.ethCall(n.o.Realm.Registry, append(bytes.Clone(ownerOf), id[:]...), &owner), n.ethCall(n.o.Realm.Registry, append(bytes.Clone(getAgentWallet), id[:]...), &wallet)}
	if err := n.rpc.BatchCallContext(ctx, batch); err != nil {
		return a, scrub(err)
	}
	if err := batch[0].Error; err != nil {
		if _, reverted := errors.AsType[*pay.Revert](revertOf(err)); reverted {
			return a, identity.ErrNoAgent
		}
		return a, scrub(err)
	}
	if a.Owner, err = readAddress(owner); err != nil {
		return identity.Agent{}, err
	}
	if a.Owner == (pay.Address{}) {
		return identity.Agent{}, identity.ErrNoAgent
	}
	if err := batch[1].Error; err != nil {
		return identity.Agent{}, scrub(err)
	}
	a.Wallet, err = readAddress(wallet)
	return a, err
}

func (n *Agents) ethCall(of pay.Address, data []byte, out *hexutil.Bytes) rpc.BatchElem {
	return rpc.BatchElem{Method: "eth_call", Result: out, Args: []any{map[string]any{"to": common.Address(of), "data": hexutil.Bytes(data), "gas": hexutil.Uint64(registryGas)}, "latest"}}
}

func readAddress(b []byte) (a pay.Address, err error) {
	if len(b) != 32 || !bytes.Equal(b[:12], make([]byte, 12)) {
		return a, errAnswer
	}
	return pay.Address(b[12:]), nil
}

// Score implements identity.Chain. Each reviewer is queried separately, so that a value beyond the scale counts at most as the scale.
func (n *Agents) Score(ctx context.Context, id pay.Word) (int64, error) {
	tags := n.o.Tags
	if len(tags) == 0 {
		tags = []string{""}
	}
	batch := make([]rpc.BatchElem, 0, len(n.o.Reviewers)*len(tags))
	for _, who := range n.o.Reviewers {
		for _, tag := range tags {
			batch = append(batch, n.ethCall(n.o.Reputation, summaryCall(id, who, tag), new(hexutil.Bytes)))
		}
	}
	if len(batch) == 0 || n.o.Reputation == (pay.Address{}) {
		return 0, nil
	}
	if err := n.rpc.BatchCallContext(ctx, batch); err != nil {
		return 0, scrub(err)
	}
	sum := new(big.Rat)
	for _, e := range batch {
		if e.Error != nil {
			return 0, scrub(e.Error)
		}
		out, _ := e.Result.(*hexutil.Bytes)
		part, err := scorePart(*out, n.o.Scale)
		if err != nil {
			return 0, err
		}
		sum.Add(sum, part)
	}
	return new(big.Int).Quo(sum.Num(), sum.Denom()).Int64(), nil
}

// summaryCall returns the call for the summary of one reviewer's feedback with a tag, "" for any.
func summaryCall(id pay.Word, who pay.Address, tag string) []byte {
	text := appendBytes(nil, []byte(tag))
	b := append(bytes.Clone(getSummary), id[:]...)
	b = append(b, typed.Number(4*32)...)                   // offset of the list of clients, after the four arguments
	b = append(b, typed.Number(6*32)...)                   // offset of the first tag, after the list
	b = append(b, typed.Number(6*32+uint64(len(text)))...) // offset of the second tag, which is empty, after the first
	b = append(append(b, typed.Number(1)...), typed.Address(who)...)
	return append(append(b, text...), typed.Number(0)...)
}

const (
	maxOpinions = 1_000_000 // of one reviewer that are counted
	maxDecimals = 18
)

// scorePart returns a summary's part of the score: the number of opinions times their average on a scale from 0 to 1.
func scorePart(b []byte, scale int64) (*big.Rat, error) {
	if len(b) != 3*32 || !bytes.Equal(b[:24], make([]byte, 24)) || !bytes.Equal(b[64:95], make([]byte, 31)) || b[95] > maxDecimals {
		return nil, errAnswer
	}
	count := min(binary.BigEndian.Uint64(b[24:32]), maxOpinions)
	value := new(big.Int).SetBytes(b[32:64])
	if b[32]&0x80 != 0 || value.Sign() == 0 { // below zero
		return new(big.Rat), nil
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(b[95])), nil)
	average := new(big.Rat).SetFrac(value, unit.Mul(unit, big.NewInt(scale)))
	if one := big.NewRat(1, 1); average.Cmp(one) > 0 {
		average = one
	}
	return average.Mul(average, new(big.Rat).SetUint64(count)), nil
}

// Recover implements identity.Chain.
func (*Agents) Recover(d pay.Word, signature []byte) (pay.Address, bool) {
	return typed.Recover(d, signature)
}

// Confirms implements identity.Chain.
func (n *Agents) Confirms(ctx context.Context, wallet pay.Address, d pay.Word, signature []byte) (bool, error) {
	return confirms(ctx, n.eth, wallet, d, signature)
}
