// Package evm is the client of an EVM chain's node, with the settlement key: the pay.Chain of programs that settle payments themselves. It implements
// authorizations (EIP-3009, EIP-712), signatures (ECDSA, ERC-1271) and transactions; it stores nothing.
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

// Node is the client of a node. Safe for concurrent use.
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
	upTo    atomic.Bool // the contracts of scheme upto were found on the chain
	checked atomic.Bool // Check has succeeded
}

var _ pay.Chain = (*Node)(nil)

// Bounds of calls to a node.
const (
	callTime    = 10 * time.Second
	walletGas   = 200_000       // limit for a contract wallet's check of a signature
	transferGas = 600_000       // limit for a transfer, whose payer may be a contract wallet
	maxAnswer   = 8 << 20       // bytes of an answer
	logBlocks   = uint64(1_000) // in one query for a transfer
)

// Open returns a node's client. It makes no call yet.
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

// account parses the settlement key; key is nil if there is none.
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
	if n.checked.Load() {
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
	n.checked.Store(true)
	return nil
}

// scrub removes the node's address from an error, since it may contain a key.
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

// transferData returns the contract and the call data of a transfer.
func (n *Node) transferData(t *pay.Transfer) (to common.Address, data []byte) {
	if t.UpTo {
		return common.Address(pay.UpToProxy), settleCall(n.terms.Asset.Address, t)
	}
	return n.token, transferCall(&t.Authorization, t.Signature)
}

// Prepare implements pay.Chain.
func (n *Node) Prepare(ctx context.Context, t *pay.Transfer, slot uint64, minFees pay.Fees) (*pay.Transaction, error) {
	if n.key == nil {
		return nil, errNoAccount
	}
	if err := n.Check(ctx); err != nil {
		return nil, err
	}
	to, data := n.transferData(t)
	if t.Mark != (pay.Mark{}) {
		data = append(data, t.Mark[:]...)
	}
	gas, err := n.eth.EstimateGas(ctx, ethereum.CallMsg{From: n.from, To: &to, Data: data, Gas: transferGas}) // the payer's contract may use any amount
	if err != nil {
		return nil, revertOf(err)
	}
	fees, err := n.fees(ctx, minFees)
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

// fees returns the node's suggestion, with a base fee of twice the current one, and at least minFees.
func (n *Node) fees(ctx context.Context, minFees pay.Fees) (pay.Fees, error) {
	tip, err := n.eth.SuggestGasTipCap(ctx)
	if err != nil {
		return pay.Fees{}, scrub(err)
	}
	h, err := n.eth.HeaderByNumber(ctx, nil)
	if err != nil {
		return pay.Fees{}, scrub(err)
	}
	feeCap := new(big.Int).Set(tip)
	if h.BaseFee != nil {
		feeCap.Add(feeCap, new(big.Int).Mul(h.BaseFee, big.NewInt(2)))
	}
	f := pay.Fees{Tip: atLeast(tip, minFees.Tip), Cap: atLeast(feeCap, minFees.Cap)}
	f.Cap = atLeast(f.Cap, f.Tip)
	return f, nil
}

func atLeast(n, floor *big.Int) *big.Int {
	if floor != nil && n.Cmp(floor) < 0 {
		return floor
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

// Receipt implements pay.Chain. Permits are used only by this account's transactions, and emit no event of their use.
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
	to, data := n.stateData(a)
	out, err := n.eth.CallContract(ctx, ethereum.CallMsg{To: &to, Data: data}, nil)
	if err != nil {
		return false, scrub(err)
	}
	return typed.Used(a, out)
}

// stateData returns the contract and the call data that query whether an authorization was used.
func (n *Node) stateData(a *pay.Authorization) (to common.Address, data []byte) {
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
			Topics: eventTopics(t),
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

// eventTopics returns the topics of the token's event for the use of an authorization. The use of a permit only emits the transfer.
func eventTopics(t *pay.Transfer) [][]common.Hash {
	if t.UpTo {
		return [][]common.Hash{{transferEvent}, {topic(t.From)}, {topic(t.To)}}
	}
	return [][]common.Hash{{useEvent}, {topic(t.From)}, {common.Hash(t.Nonce)}}
}

// typicalGas is the typical gas of a transfer, for estimates.
const typicalGas = 90_000

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
	each := new(big.Int).Mul(fees.Cap, big.NewInt(typicalGas))
	if each.Sign() == 0 {
		each.SetInt64(1)
	}
	if times := wei.Div(wei, each); times.IsInt64() {
		return times.Int64(), nil
	}
	return int64(^uint64(0) >> 1), nil
}

// scrubUnlessRevert returns a node's error; nil for a call that the contract reverts.
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

// revertOf returns a *pay.Revert if the node reports that a transaction would fail, else the node's error.
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

// reverts are parts of nodes' error messages for a transaction that would fail.
var reverts = []string{"revert", "out of gas", "gas required exceeds"}

// clip shortens a contract's text.
func clip(s string) string {
	const limit = 200
	return s[:min(len(s), limit)]
}
