package resolve

import (
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

// Rules are what an operator says about choosing, besides the order of providers. The zero value is the default of each.
type Rules struct {
	Strategy  Strategy
	Mode      Mode
	Dreams    policy.ProviderID // who serves dreams, if it can; "bardo": anybody but Venice
	Exhausted Exhausted
}

// Strategy says who decides the order of what could serve a request.
type Strategy string

// The strategies.
const (
	Auto    Strategy = "auto"    // the ordered resolver for requests that say what they need, else the scorer; "" is the same
	Ordered Strategy = "ordered" // the resolver: the first provider that fits
	Scored  Strategy = "score"   // the scorer
)

// Mode says which tasks of agents go to Venice.
type Mode string

// The modes.
const (
	ModeUnsaid Mode = ""       // those that want privacy, and all while staked credit pays
	ModeVenice Mode = "venice" // all
	ModeBardo  Mode = "bardo"  // none, but what must stay private
	ModeBoth   Mode = "both"   // those that want an enclave
)

// Exhausted says what happens to a task that wants an enclave where nobody has one.
type Exhausted string

// The answers.
const (
	Continue    Exhausted = "continue" // it is served elsewhere, and that is named; "" is the same
	Fail        Exhausted = "fail"
	ContinueE2E Exhausted = "continue_e2e" // even what was to be sealed end to end is served elsewhere
)

// RulesOf are the rules of a configuration.
func RulesOf(c *config.Config) Rules {
	return Rules{
		Strategy: Strategy(c.Routing.Strategy), Mode: Mode(c.Inference.ProviderMode), Dreams: c.Inference.DreamProvider,
		Exhausted: Exhausted(c.Inference.OnPrivacyExhausted),
	}
}

// Under is the resolver under other rules.
func (r *Resolver) Under(rules Rules) *Resolver {
	out := *r
	out.rules = rules
	return &out
}
