package evm

import (
	"context"
	"fmt"
	"math/big"
	"sync/atomic"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/stake"
)

// Stake reads a position of staked VVV. Safe for concurrent use.
type Stake struct {
	o       stake.NodeOptions
	eth     *ethclient.Client
	checked atomic.Bool // Check has succeeded
}

var _ stake.Chain = (*Stake)(nil)

// OpenStake returns the client of a node. It makes no call yet.
func OpenStake(ctx context.Context, o stake.NodeOptions) (*Stake, error) {
	c, err := dial(ctx, o.URL)
	if err != nil {
		return nil, err
	}
	return &Stake{o: o, eth: ethclient.NewClient(c)}, nil
}

// Check implements stake.Chain.
func (n *Stake) Check(ctx context.Context) error {
	if n.checked.Load() {
		return nil
	}
	id, err := n.eth.ChainID(ctx)
	if err != nil {
		return fmt.Errorf("the node of %s cannot be asked: %w", n.o.Network, scrub(err))
	}
	if !id.IsUint64() || id.Uint64() != n.o.Network.ID {
		return &pay.Mismatch{Detail: fmt.Sprintf("the node is of chain %s, and the network is %s", id, n.o.Network)}
	}
	code, err := n.eth.CodeAt(ctx, common.Address(n.o.Contract), nil)
	if err != nil {
		return scrub(err)
	}
	if len(code) == 0 {
		return &pay.Mismatch{Detail: fmt.Sprintf("there is no contract of staked VVV at %s on %s", n.o.Contract, n.o.Network)}
	}
	n.checked.Store(true)
	return nil
}

// Staked implements stake.Chain. The staking contract is itself the token of staked VVV.
func (n *Stake) Staked(ctx context.Context) (*big.Int, error) {
	at := common.Address(n.o.Contract)
	out, err := n.eth.CallContract(ctx, ethereum.CallMsg{To: &at, Gas: registryGas, Data: balanceCall(n.o.Wallet)}, nil)
	if err != nil {
		return nil, scrub(err)
	}
	if len(out) != len(pay.Word{}) {
		return nil, errAnswer
	}
	return new(big.Int).SetBytes(out), nil
}
