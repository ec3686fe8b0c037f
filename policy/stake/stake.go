// Package stake manages the credit at Venice from staked VVV (P-11): the value of a position in each phase of an agent's life, its effect on the key
// that spends it, and the documents of Venice's key API. It calls neither a chain nor Venice.
package stake

import (
	"context"
	"math"
	"math/big"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
)

// Chain reads a position of staked VVV. Safe for concurrent use.
type Chain interface {
	// Check verifies that the node is of the network, and that the contract exists. The error is a *pay.Mismatch if not.
	Check(ctx context.Context) error
	// Staked returns the wallet's stake, in 1e-18 VVV.
	Staked(ctx context.Context) (*big.Int, error)
}

// NodeOptions define where a position is read.
type NodeOptions struct {
	URL      string // of a node's JSON-RPC interface
	Network  pay.Network
	Contract pay.Address // of staked VVV, whose balances are the stakes
	Wallet   pay.Address
}

// Opener returns the client of a node. It sends no request yet.
type Opener func(ctx context.Context, o NodeOptions) (Chain, error)

// Rates define the value of a position.
type Rates struct {
	Credit float64 // API credits per staked VVV and day
	USD    float64 // that a credit pays for
	Min    float64 // credits below which a position counts for nothing
}

// unit is one VVV in the contract's numbers.
var unit = new(big.Float).SetInt64(1_000_000_000_000_000_000)

// Credits returns a position's API credits per day. staked is in 1e-18 VVV.
func (r Rates) Credits(staked *big.Int) float64 {
	vvv, _ := new(big.Float).Quo(new(big.Float).SetInt(staked), unit).Float64()
	return vvv * r.Credit
}

// multipliers are the shares of its credit that an agent may spend, by its phase, in percent.
var multipliers = [...]float64{
	policy.PhaseUnset: 100, policy.PhaseThriving: 100, policy.PhaseStable: 100, policy.PhaseConservation: 50, policy.PhaseDeclining: 10, policy.PhaseTerminal: 0,
}

// maxLimit limits the limit of a key, whatever a node reports.
const maxLimit = 1_000_000 * policy.USD

// Limit returns what a key may spend per Venice day in a phase: nothing if the credits are below the minimum.
func (r Rates) Limit(credits float64, p policy.Phase) policy.Micro {
	usd := credits * r.USD * multipliers[p] / 100
	switch {
	case credits < r.Min, !(usd > 0): // NaN, too
		return 0
	case usd >= float64(maxLimit/policy.USD):
		return maxLimit
	}
	return policy.Micro(math.Floor(usd * float64(policy.USD)))
}

// Key is a key at Venice. The zero value is none.
type Key struct {
	ID    string
	Limit policy.Micro // per day
	Phase policy.Phase // in which the limit was set
}

// Action is the required change of the key.
type Action string

// The actions.
const (
	Keep     Action = ""
	Issue    Action = "issued"
	Rotate   Action = "rotated"   // replaced by another key
	Throttle Action = "throttled" // the same key, with a lower limit
	Raise    Action = "raised"    // the same key, with a higher limit
	Revoke   Action = "revoked"
)

// Decide returns the required change of a key. When the phase changes, the key is replaced, or throttled if the limit becomes lower.
func Decide(k Key, limit policy.Micro, p policy.Phase) Action {
	switch {
	case k.ID == "" && limit > 0:
		return Issue
	case k.ID == "":
		return Keep
	case limit == 0:
		return Revoke
	case limit < k.Limit:
		return Throttle
	case p != k.Phase:
		return Rotate
	case limit > k.Limit:
		return Raise
	}
	return Keep
}
