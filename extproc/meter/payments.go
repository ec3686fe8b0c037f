package meter

import (
	"context"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Payments is a way to pay for single requests without a key. Safe for concurrent use.
type Payments interface {
	// Payer returns the payer of the payment in a request's headers; ok is false if there is none. The principal has no account until its identity is
	// certain. The error is a fault. It does not block.
	Payer(h header.List, s Subject) (who policy.Principal, payer Payer, ok bool, err error)
	// Quote returns, for a caller without credentials, a payer that refuses with the request's price. The error is a fault.
	Quote(h header.List, s Subject) (who policy.Principal, payer Payer, err error)
	// Of returns the state of a request's payment as JSON; ok is false if there was none.
	Of(ctx context.Context, requestID string) (state []byte, ok bool, err error)
}

// Subject is a request that pays for itself, as its payer sees it when it reserves.
type Subject interface {
	Digest() [32]byte // hashes what the price depends on
	Estimate() Estimate
	Streams() bool // the answer's headers are sent before its cost is known
}

// Estimate is the basis of a request's price.
type Estimate struct {
	URL           string
	InputTokens   int64
	OutputTokens  int64
	Model         policy.ModelID
	ProviderCost  policy.Pico // maximum that a provider can charge
	CacheEligible bool
	Optimizations []string
}

// PerRequest is implemented by payers of single requests.
type PerRequest interface {
	Payer
	// Account returns the payer's account, once something is reserved.
	Account() policy.Account
	// State returns the state of the payment: pending, settled, failed or released; "" for none.
	State() string
}

// Covers reports whether the payment covers a further amount. With a balance, the reservation decides.
func (b *Bill) Covers(amount policy.Micro) bool {
	maxCost, ok := b.payer.Limit()
	return !ok || amount <= maxCost
}
