package main

import (
	"context"

	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/evm"
	"bardo.money/gateway/policy/stake"
)

// openChain creates the client of a chain's node. Only this program contains it, not libbardo.so.
func openChain(ctx context.Context, o pay.NodeOptions) (pay.Chain, error) { return evm.Open(ctx, o) }

// openAgents creates the client of a node for the registries of agents.
func openAgents(ctx context.Context, o identity.NodeOptions) (identity.Chain, error) {
	return evm.OpenAgents(ctx, o)
}

// openStake creates the client of a node for positions of staked VVV.
func openStake(ctx context.Context, o stake.NodeOptions) (stake.Chain, error) {
	return evm.OpenStake(ctx, o)
}
