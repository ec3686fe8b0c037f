package remote

import (
	"context"
	"errors"
	"math/big"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/stake"
)

// staking is a node of a position.
type staking struct {
	err error
	has *big.Int
}

func (s *staking) Check(context.Context) error { return s.err }

func (s *staking) Staked(context.Context) (*big.Int, error) { return s.has, s.err }

// TestD89APositionIsReadThroughTheSocket, from the currently configured node.
func TestD89APositionIsReadThroughTheSocket(t *testing.T) {
	var opened []stake.NodeOptions
	huge, _ := new(big.Int).SetString("340282366920938463463374607431768211456", 10)
	n := &staking{has: huge}
	socket, stop := listen(t, Handler(nil, nil, nil, func(_ context.Context, o stake.NodeOptions) (stake.Chain, error) {
		opened = append(opened, o)
		return n, nil
	}))
	open := OpenStake(socket)
	one := stake.NodeOptions{URL: "http://a", Network: pay.Network{ID: 1, Name: "base"}, Contract: pay.Address{1}, Wallet: pay.Address{2}}
	other := one
	other.URL = "http://b"
	for _, o := range []stake.NodeOptions{one, one, other} {
		c, err := open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Staked(t.Context())
		if err := errors.Join(err, c.Check(t.Context())); err != nil || got.Cmp(huge) != 0 {
			t.Errorf("%s, %v", got, err)
		}
	}
	if len(opened) != 2 || opened[0] != one || opened[1] != other {
		t.Errorf("opened %+v", opened)
	}
	c, _ := open(t.Context(), other)
	n.err = &pay.Mismatch{Detail: "another chain"}
	_, err := c.Staked(t.Context())
	for _, err := range []error{err, c.Check(t.Context())} {
		if _, ok := errors.AsType[*pay.Mismatch](err); !ok {
			t.Errorf("%v", err)
		}
	}
	stop()
	if err := c.Check(t.Context()); !errors.Is(err, errUnavailable) {
		t.Errorf("a process that is away: %v", err)
	}
}

// TestANodeOfAPositionThatCannotBeOpenedIsOpenedAgain with the next call.
func TestANodeOfAPositionThatCannotBeOpenedIsOpenedAgain(t *testing.T) {
	cause := errors.New("the address is not valid")
	var opens atomic.Bool
	socket, _ := listen(t, Handler(nil, nil, nil, func(context.Context, stake.NodeOptions) (stake.Chain, error) {
		if !opens.Load() {
			return nil, cause
		}
		return &staking{has: big.NewInt(7)}, nil
	}))
	c, err := OpenStake(socket)(t.Context(), stake.NodeOptions{URL: "http://a"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Staked(t.Context())
	for _, err := range []error{err, c.Check(t.Context())} {
		if err == nil || err.Error() != cause.Error() {
			t.Errorf("%v", err)
		}
	}
	opens.Store(true)
	if got, err := c.Staked(t.Context()); err != nil || got.Int64() != 7 {
		t.Errorf("%s, %v", got, err)
	}
}
