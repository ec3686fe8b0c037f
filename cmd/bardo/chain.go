package main

import (
	"context"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/evm"
)

// openChain makes the client of a chain's node. This program alone has it: libbardo.so does not.
func openChain(ctx context.Context, o pay.NodeOptions) (pay.Chain, error) { return evm.Open(ctx, o) }
