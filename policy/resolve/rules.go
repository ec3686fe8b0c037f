package resolve

import (
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/privacy"
)

// Rules are the operator's settings of choosing, besides the order of providers. The zero value is the default of each.
type Rules struct {
	Strategy  Strategy
	Mode      Mode
	Dreams    policy.ProviderID // preferred provider of dreams; "bardo" means any but the private one
	Exhausted Exhausted
	LowCredit bool // the private provider's staked credit is below its minimum
}

// PrivatePlane returns which classes of tasks the private provider receives.
func (r *Resolver) PrivatePlane() privacy.Plane {
	switch r.rules.Mode {
	case ModeVenice:
		return privacy.All
	case ModeBardo:
		return privacy.None
	case ModeUnset, ModeBoth:
	}
	return privacy.Sensitive
}

// Strategy is how candidates are ordered.
type Strategy string

// The strategies.
const (
	Auto    Strategy = "auto"    // the ordered resolver for requests with hints, else the scorer; "" is the same
	Ordered Strategy = "ordered" // the resolver: the first provider that fits
	Scored  Strategy = "score"   // the scorer
)

// Mode is which agent tasks go to the private provider (inference.provider_mode).
type Mode string

// The modes.
const (
	ModeUnset  Mode = ""       // tasks that need privacy, and all while staked credit pays
	ModeVenice Mode = "venice" // all
	ModeBardo  Mode = "bardo"  // none, except those that must stay private
	ModeBoth   Mode = "both"   // those that need an enclave
)

// Exhausted is what happens to a task that needs an enclave if no provider has one.
type Exhausted string

// The settings of Exhausted.
const (
	Continue    Exhausted = "continue" // served without one, and listed as degraded; "" is the same
	Fail        Exhausted = "fail"
	ContinueE2E Exhausted = "continue_e2e" // even tasks with end-to-end encryption are served without it
)

// WithRules returns the resolver with other rules.
func (r *Resolver) WithRules(rules Rules) *Resolver {
	out := *r
	out.rules = rules
	return &out
}

// Available is a provider that the operator could enable.
type Available struct {
	EnabledBy   string // what enables it: "set OPENAI_API_KEY, or providers.openai in the configuration"
	Marketplace bool   // serves models of many vendors
}

// Knowing returns the resolver with the providers that could be enabled, which errors suggest.
func (r *Resolver) Knowing(available map[policy.ProviderID]Available) *Resolver {
	out := *r
	out.available = available
	return &out
}

// marketplace returns the provider that errors suggest if no vendor serves a model, "" if there is none.
func (r *Resolver) marketplace() policy.ProviderID {
	for id, a := range r.available {
		if a.Marketplace {
			return id
		}
	}
	return ""
}
