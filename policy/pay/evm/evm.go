// Package evm is a node of an EVM chain, and the key that settles payments there: the pay.Chain of programs that take payments themselves. It knows the
// form of authorizations (EIP-3009, EIP-712), signatures (ECDSA, ERC-1271) and transactions; it stores nothing.
package evm

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/typed"
)

// Node is a node's client. Safe for concurrent use.
type Node struct {
	rpc     *rpc.Client
	eth     *ethclient.Client
	key     *ecdsa.PrivateKey
	from    common.Address
	chain   *big.Int
	token   common.Address
	domain  pay.Word
	permits pay.Word // the domain of Permit2
	terms   *pay.Terms
	upTo    atomic.Bool // the chain has the contracts of scheme upto
	right   atomic.Bool // the node was found to be of the terms' chain, and the token to have the terms' domain
}

var _ pay.Chain = (*Node)(nil)

// Bounds of what a node is asked.
const (
	callTime    = 10 * time.Second
	walletGas   = 200_000       // for a contract wallet to check a signature
	transferGas = 600_000       // for a transfer whose payer is a contract wallet
	maxAnswer   = 8 << 20       // bytes of an answer
	logBlocks   = uint64(1_000) // of one search for a transfer
)

// Open makes a node's client. It does not ask the node anything yet.
func Open(ctx context.Context, o pay.NodeOptions) (*Node, error) {
	key, from, err := account(o.Key)
	if err != nil {
		return nil, err
	}
	c, err := dial(ctx, o.URL)
	if err != nil {
		return nil, err
	}
	return &Node{
		rpc: c, eth: ethclient.NewClient(c), key: key, from: from, chain: new(big.Int).SetUint64(o.Terms.Network.ID),
		token: common.Address(o.Terms.Asset.Address), domain: typed.Domain(o.Terms.Asset, o.Terms.Network.ID), permits: typed.PermitDomain(o.Terms.Network.ID), terms: o.Terms,
	}, nil
}

// account is the one that settles; key is nil where none does.
func account(text string) (key *ecdsa.PrivateKey, from common.Address, err error) {
	if text == "" {
		return nil, from, nil
	}
	if key, err = crypto.HexToECDSA(strings.TrimPrefix(strings.TrimSpace(text), "0x")); err != nil {
		return nil, from, errors.New("the settlement key is not a private key of 32 bytes in hexadecimal digits") // without the key
	}
	return key, crypto.PubkeyToAddress(key.PublicKey), nil
}

var errNoAccount = errors.New("this node has no account that settles")

// Check implements pay.Chain.
func (n *Node) Check(ctx context.Context) error {
	if n.right.Load() {
		return nil
	}
	t := n.terms
	id, err := n.eth.ChainID(ctx)
	if err != nil {
		return fmt.Errorf("the node of %s cannot be asked: %w", t.Network, scrub(err))
	}
	if id.Cmp(n.chain) != 0 {
		return &pay.Mismatch{Detail: fmt.Sprintf("the node is of chain %s, and the network is %s", id, t.Network)}
	}
	domain, err := n.eth.CallContract(ctx, ethereum.CallMsg{To: &n.token, Data: typed.Selector("DOMAIN_SEPARATOR()")}, nil)
	if err != nil {
		return fmt.Errorf("the token %s cannot be asked: %w", t.Asset.Address, scrub(err))
	}
	if !bytes.Equal(domain, n.domain[:]) {
		return &pay.Mismatch{Detail: fmt.Sprintf("the token %s is not %q version %q of this chain: its EIP-712 domain is another one", t.Asset.Address, t.Asset.Name, t.Asset.Version)}
	}
	if err := n.checkUpTo(ctx); err != nil {
		return fmt.Errorf("the contracts of scheme upto cannot be asked for: %w", err)
	}
	n.right.Store(true)
	return nil
}

// scrub leaves out of an error where the node is: the address may contain a key.
func scrub(err error) error {
	if _, ok := errors.AsType[rpc.Error](err); ok {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errors.New("it did not answer in time")
	}
	if status, ok := errors.AsType[rpc.HTTPError](err); ok {
		return fmt.Errorf("it answers %d", status.StatusCode)
	}
	return errors.New("it cannot be reached")
}

// Head implements pay.Chain.
func (n *Node) Head(ctx context.Context) (pay.Block, error) {
	h, err := n.eth.HeaderByNumber(ctx, nil)
	if err != nil {
		return pay.Block{}, scrub(err)
	}
	return pay.Block{Number: h.Number.Uint64(), Time: time.Unix(int64(h.Time), 0)}, nil //nolint:gosec // a time
}

// Slot implements pay.Chain.
func (n *Node) Slot(ctx context.Context) (uint64, error) {
	slot, err := n.eth.NonceAt(ctx, n.from, nil)
	if err != nil {
		return 0, scrub(err)
	}
	return slot, nil
}

// use is the call that makes a transfer, and of which contract.
func (n *Node) use(t *pay.Transfer) (to common.Address, data []byte) {
	if t.UpTo {
		return common.Address(pay.UpToProxy), settleCall(n.terms.Asset.Address, t)
	}
	return n.token, transferCall(&t.Authorization, t.Signature)
}

// Prepare implements pay.Chain.
func (n *Node) Prepare(ctx context.Context, t *pay.Transfer, slot uint64, least pay.Fees) (*pay.Transaction, error) {
	if n.key == nil {
		return nil, errNoAccount
	}
	if err := n.Check(ctx); err != nil {
		return nil, err
	}
	to, data := n.use(t)
	if t.Mark != (pay.Mark{}) {
		data = append(data, t.Mark[:]...)
	}
	gas, err := n.eth.EstimateGas(ctx, ethereum.CallMsg{From: n.from, To: &to, Data: data, Gas: transferGas}) // the payer's contract may take as much as it likes
	if err != nil {
		return nil, revertOf(err)
	}
	fees, err := n.fees(ctx, least)
	if err != nil {
		return nil, err
	}
	tx, err := types.SignNewTx(n.key, types.LatestSignerForChainID(n.chain), &types.DynamicFeeTx{
		ChainID: n.chain, Nonce: slot, GasTipCap: fees.Tip, GasFeeCap: fees.Cap, Gas: gas + gas/5, To: &to, Data: data,
	})
	if err != nil {
		return nil, err
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return &pay.Transaction{Hash: pay.Word(tx.Hash()), Slot: slot, Raw: raw, Fees: fees}, nil
}

// fees are the node's suggestion, with room for two full blocks, and at least those given.
func (n *Node) fees(ctx context.Context, least pay.Fees) (pay.Fees, error) {
	tip, err := n.eth.SuggestGasTipCap(ctx)
	if err != nil {
		return pay.Fees{}, scrub(err)
	}
	h, err := n.eth.HeaderByNumber(ctx, nil)
	if err != nil {
		return pay.Fees{}, scrub(err)
	}
	most := new(big.Int).Set(tip)
	if h.BaseFee != nil {
		most.Add(most, new(big.Int).Mul(h.BaseFee, big.NewInt(2)))
	}
	f := pay.Fees{Tip: atLeast(tip, least.Tip), Cap: atLeast(most, least.Cap)}
	f.Cap = atLeast(f.Cap, f.Tip)
	return f, nil
}

func atLeast(n, least *big.Int) *big.Int {
	if least != nil && n.Cmp(least) < 0 {
		return least
	}
	return n
}

// Send implements pay.Chain.
func (n *Node) Send(ctx context.Context, raw []byte) error {
	err := n.rpc.CallContext(ctx, nil, "eth_sendRawTransaction", hexutil.Encode(raw))
	if answered, ok := errors.AsType[rpc.Error](err); ok && strings.Contains(strings.ToLower(answered.Error()), "already") { // "already known", "already imported"
		return nil
	}
	if err != nil {
		return scrub(err)
	}
	return nil
}

// Receipt implements pay.Chain. A transaction that moves by a permit is this account's own: its use of the permit needs no event.
func (n *Node) Receipt(ctx context.Context, hash pay.Word, t *pay.Transfer) (r pay.Receipt, ok bool, err error) {
	got, err := n.eth.TransactionReceipt(ctx, common.Hash(hash))
	if errors.Is(err, ethereum.NotFound) {
		return pay.Receipt{}, false, nil
	}
	if err != nil {
		return pay.Receipt{}, false, scrub(err)
	}
	r = pay.Receipt{Block: got.BlockNumber.Uint64(), BlockHash: pay.Word(got.BlockHash), Succeeded: got.Status == types.ReceiptStatusSuccessful}
	used, moved := t.UpTo, false
	for _, l := range got.Logs {
		used = used || n.isUse(l, &t.Authorization)
		moved = moved || n.isTransfer(l, t)
	}
	r.Paid = r.Succeeded && used && moved
	return r, true, nil
}

var (
	transferEvent = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))
	useEvent      = crypto.Keccak256Hash([]byte("AuthorizationUsed(address,bytes32)"))
)

func (n *Node) isUse(l *types.Log, a *pay.Authorization) bool {
	return l.Address == n.token && len(l.Topics) == 3 && l.Topics[0] == useEvent && l.Topics[1] == topic(a.From) && l.Topics[2] == common.Hash(a.Nonce)
}

func (n *Node) isTransfer(l *types.Log, t *pay.Transfer) bool {
	return l.Address == n.token && len(l.Topics) == 3 && l.Topics[0] == transferEvent && l.Topics[1] == topic(t.From) && l.Topics[2] == topic(t.To) &&
		bytes.Equal(l.Data, typed.Number(uint64(t.Amount))) //nolint:gosec // an amount is not negative
}

func topic(a pay.Address) common.Hash { return common.BytesToHash(a[:]) }

// Used implements pay.Chain.
func (n *Node) Used(ctx context.Context, a *pay.Authorization) (bool, error) {
	to, data := n.state(a)
	out, err := n.eth.CallContract(ctx, ethereum.CallMsg{To: &to, Data: data}, nil)
	if err != nil {
		return false, scrub(err)
	}
	return typed.Used(a, out)
}

// state asks whether an authorization was used.
func (n *Node) state(a *pay.Authorization) (to common.Address, data []byte) {
	contract, data := typed.State(n.terms.Asset.Address, a)
	return common.Address(contract), data
}

// FindTransfer implements pay.Chain.
func (n *Node) FindTransfer(ctx context.Context, t *pay.Transfer, from uint64) (hash pay.Word, ok bool, err error) {
	head, err := n.Head(ctx)
	if err != nil {
		return pay.Word{}, false, err
	}
	for ; from <= head.Number; from += logBlocks {
		logs, err := n.eth.FilterLogs(ctx, ethereum.FilterQuery{
			FromBlock: new(big.Int).SetUint64(from), ToBlock: new(big.Int).SetUint64(min(from+logBlocks-1, head.Number)), Addresses: []common.Address{n.token},
			Topics: traces(t),
		})
		if err != nil {
			return pay.Word{}, false, scrub(err)
		}
		if t.UpTo {
			hash, ok, err = n.findSettle(ctx, t, logs)
		} else if len(logs) > 0 {
			hash, ok = pay.Word(logs[0].TxHash), true
		}
		if ok || err != nil {
			return hash, ok, err
		}
	}
	return pay.Word{}, false, nil
}

// Mark implements pay.Chain.
func (n *Node) Mark(ctx context.Context, hash pay.Word) (pay.Mark, error) {
	tx, _, err := n.eth.TransactionByHash(ctx, common.Hash(hash))
	if err != nil {
		return pay.Mark{}, scrub(err)
	}
	return pay.ParseMark(tx.Data()), nil
}

// traces are the topics of the token's event that the use of an authorization leaves. A permit leaves none of its own, but the transfer.
func traces(t *pay.Transfer) [][]common.Hash {
	if t.UpTo {
		return [][]common.Hash{{transferEvent}, {topic(t.From)}, {topic(t.To)}}
	}
	return [][]common.Hash{{useEvent}, {topic(t.From)}, {common.Hash(t.Nonce)}}
}

// usualGas is what a transfer takes on the public chains, for estimates alone.
const usualGas = 90_000

// Affords implements pay.Chain.
func (n *Node) Affords(ctx context.Context) (int64, error) {
	wei, err := n.eth.BalanceAt(ctx, n.from, nil)
	if err != nil {
		return 0, scrub(err)
	}
	fees, err := n.fees(ctx, pay.Fees{})
	if err != nil {
		return 0, err
	}
	each := new(big.Int).Mul(fees.Cap, big.NewInt(usualGas))
	if each.Sign() == 0 {
		each.SetInt64(1)
	}
	if times := wei.Div(wei, each); times.IsInt64() {
		return times.Int64(), nil
	}
	return int64(^uint64(0) >> 1), nil
}

// scrubUnlessRevert is a node's error, but for a call that the contract refuses.
func scrubUnlessRevert(err error) error {
	if err == nil {
		return nil
	}
	err = revertOf(err)
	if _, ok := errors.AsType[*pay.Revert](err); ok {
		return nil
	}
	return err
}

// revertOf is a *pay.Revert where the node says that a transaction would fail.
func revertOf(err error) error {
	answered, ok := errors.AsType[rpc.Error](err)
	if !ok {
		return scrub(err)
	}
	text := answered.Error()
	if !slices.ContainsFunc(reverts, func(word string) bool { return strings.Contains(strings.ToLower(text), word) }) {
		return scrub(err)
	}
	return &pay.Revert{Reason: clip(text)}
}

// reverts are the words of nodes for a transaction that would fail.
var reverts = []string{"revert", "out of gas", "gas required exceeds"}

// clip bounds a text of a contract.
func clip(s string) string {
	const most = 200
	return s[:min(len(s), most)]
}
