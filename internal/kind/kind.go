// Package kind says what other packages must know of a kind of provider without knowing its adapter. The values stand beside the adapters, in
// extproc/provider/<name>/kind.go, and cmd/bardo/parts.go lists them. Nothing here names a provider.
package kind

import (
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// Kind describes a kind of provider.
type Kind struct {
	Name   string // of its adapter
	Traits Traits
}

// Traits are what the choice of a provider depends on. The zero value is a server of the operator's choice, of which nothing is known.
type Traits struct {
	Lacks  []policy.Feature // no model has them there, whatever is known of the model elsewhere
	Gives  []policy.Feature // every model has them there
	OwnKey []policy.Feature // every model has them there for requests on a user's own key, besides
	First  Preference       // the requests that it serves before others
	Rank   int              // among providers of equal scores: lower ones come first (D-10)

	ComparedByCost bool // it serves so many models that only their cost is compared
	ReadsDocuments bool // it reads documents for models that do not
	Marketplace    bool // it serves the models of many vendors: where no provider serves a model, this one is named
}

// Preference says which requests a provider serves before others.
type Preference uint8

// The preferences.
const (
	ForNone    Preference = iota // it stands in the configured order
	ForPrivacy                   // those that want privacy, and all while staked credit pays; it competes for nothing else
	ForWallet                    // those of the subsystems that a wallet's earnings pay for
)

// Earnings are what a wallet that pays for inference has and had, in USDC base units.
type Earnings struct{ Balance, Revenue, Cost policy.Micro }

// Provider is an enabled provider as the choice of one sees it.
type Provider struct {
	ID      policy.ProviderID
	Traits  Traits
	Private bool              // it retains nothing
	Free    bool              // costs nothing, whatever model it is asked for
	Vendor  bool              // it is the vendor of the models that it serves, or a user's own key at one
	Of      policy.ProviderID // the vendor whose models it lists; "" for none
	Direct  bool              // a user's own key: no pipeline, no spread, unless ContextEngineering

	ContextEngineering bool

	Models  []modelfile.Model // what it lists; vendors list the models that the catalog knows of them
	Catalog string            // the form of its own list of models: openai, openrouter, venice, blockrun; "": it has none that is read
	Any     bool              // serves any id that no other provider lists
	Broad   bool              // serves models of many vendors: without Models and without a list of its own, the catalog's
	Only    []string          // parts of ids of the models that it may be asked for; nil: all

	DIEM       bool     // paid by staked credit
	Subsystems []string // that its wallet pays for
	Earnings   Earnings // of its wallet
}
