package meter

import (
	"context"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Payments are a way to pay for single requests, without a key. Safe for concurrent use.
type Payments interface {
	// Payer is who pays by the payment in a request's headers; ok is false where there is none. The principal has no account yet if it is not certain who
	// that is. The error is a fault. It waits for nothing.
	Payer(h header.List, s Subject) (who policy.Principal, payer Payer, ok bool, err error)
	// Asker is for a caller without credentials: its payer refuses with what the request costs. The error is a fault.
	Asker(h header.List, s Subject) (who policy.Principal, payer Payer, err error)
	// Of is how the payment for a request stands, as JSON; ok is false where none was made.
	Of(ctx context.Context, requestID string) (state []byte, ok bool, err error)
}

// Subject is a request that is paid for by itself, as its payer sees it when it reserves.
type Subject interface {
	Digest() [32]byte // of what was asked for
	Estimate() Estimate
	Streams() bool // the answer's headers go out before its cost is known
}

// Estimate is what the price of a request is made of.
type Estimate struct {
	URL           string
	InputTokens   int64
	OutputTokens  int64
	Model         policy.ModelID
	ProviderCost  policy.Pico // the most that a provider can ask for
	CacheEligible bool
	Optimizations []string
}

// PerRequest is implemented by payers of single requests.
type PerRequest interface {
	Payer
	// Account is the payer's, once something is reserved.
	Account() policy.Account
	// State is how the payment stands: pending, settled, failed or released; "" where there is none.
	State() string
}

// Covers reports whether what is paid for covers one more amount. Where a balance pays, the reservation decides.
func (b *Bill) Covers(amount policy.Micro) bool {
	most, ok := b.payer.Limit()
	return !ok || amount <= most
}
