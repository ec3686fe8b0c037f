package remote

import (
	"context"
	"math/big"
	"sync"

	"bardo.money/gateway/policy/stake"
)

// The methods about positions of staked VVV.
const (
	methodStakeCheck = "stake/check"
	methodStaked     = "stake/staked"
)

// OpenStake makes clients of nodes by the process at a socket.
func OpenStake(socket string) stake.Opener {
	c := &caller{}
	c.connectTo(socket)
	return func(_ context.Context, o stake.NodeOptions) (stake.Chain, error) { return &position{c, o}, nil }
}

// position is one that another process reads. Safe for concurrent use.
type position struct {
	*caller

	of stake.NodeOptions
}

var _ stake.Chain = (*position)(nil)

// Check implements stake.Chain.
func (p *position) Check(ctx context.Context) error {
	_, err := ask[stake.NodeOptions, nothing](ctx, p.caller, methodStakeCheck, p.of)
	return err
}

// Staked implements stake.Chain.
func (p *position) Staked(ctx context.Context) (*big.Int, error) {
	return ask[stake.NodeOptions, *big.Int](ctx, p.caller, methodStaked, p.of)
}

// positions answer questions about positions. A reload may name another node: the client of the last one is kept. Safe for concurrent use.
type positions struct {
	open stake.Opener

	mu    sync.Mutex
	of    stake.NodeOptions
	chain stake.Chain // nil: there is none yet
}

func (p *positions) client(ctx context.Context, o stake.NodeOptions) (stake.Chain, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.chain != nil && p.of == o {
		return p.chain, nil
	}
	c, err := p.open(ctx, o)
	if err != nil {
		return nil, err
	}
	p.chain, p.of = c, o
	return c, nil
}

func (p *positions) check(ctx context.Context, o stake.NodeOptions) (nothing, error) {
	c, err := p.client(ctx, o)
	if err == nil {
		err = c.Check(ctx)
	}
	return nothing{}, err
}

func (p *positions) staked(ctx context.Context, o stake.NodeOptions) (*big.Int, error) {
	c, err := p.client(ctx, o)
	if err != nil {
		return nil, err
	}
	return c.Staked(ctx)
}
