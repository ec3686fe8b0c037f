package main

import (
	"context"

	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/evm"
	"bardo.money/gateway/policy/stake"
)

// openChain makes the client of a chain's node. This program alone has it: libbardo.so does not.
func openChain(ctx context.Context, o pay.NodeOptions) (pay.Chain, error) { return evm.Open(ctx, o) }

// openAgents makes the client of a node of the registries of agents.
func openAgents(ctx context.Context, o identity.NodeOptions) (identity.Chain, error) {
	return evm.OpenAgents(ctx, o)
}

// openStake makes the client of a node that a position of staked VVV is read at.
func openStake(ctx context.Context, o stake.NodeOptions) (stake.Chain, error) {
	return evm.OpenStake(ctx, o)
}
