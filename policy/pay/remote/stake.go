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

// OpenStake returns an opener of clients through the process at a socket.
func OpenStake(socket string) stake.Opener {
	c := &caller{}
	c.connectTo(socket)
	return func(_ context.Context, o stake.NodeOptions) (stake.Chain, error) { return &position{c, o}, nil }
}

// position reads a position through another process. Safe for concurrent use.
type position struct {
	*caller

	of stake.NodeOptions
}

var _ stake.Chain = (*position)(nil)

// Check implements stake.Chain.
func (p *position) Check(ctx context.Context) error {
	_, err := call[stake.NodeOptions, empty](ctx, p.caller, methodStakeCheck, p.of)
	return err
}

// Staked implements stake.Chain.
func (p *position) Staked(ctx context.Context) (*big.Int, error) {
	return call[stake.NodeOptions, *big.Int](ctx, p.caller, methodStaked, p.of)
}

// positions serves the methods of positions. It keeps the client of the last node; a reload may change the node. Safe for concurrent use.
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

func (p *positions) check(ctx context.Context, o stake.NodeOptions) (empty, error) {
	c, err := p.client(ctx, o)
	if err == nil {
		err = c.Check(ctx)
	}
	return empty{}, err
}

func (p *positions) staked(ctx context.Context, o stake.NodeOptions) (*big.Int, error) {
	c, err := p.client(ctx, o)
	if err != nil {
		return nil, err
	}
	return c.Staked(ctx)
}
