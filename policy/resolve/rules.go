package resolve

import "bardo.money/gateway/policy"

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

// Under is the resolver under other rules.
func (r *Resolver) Under(rules Rules) *Resolver {
	out := *r
	out.rules = rules
	return &out
}

// Available is a provider that an operator could enable.
type Available struct {
	EnabledBy   string // what enables it: "set OPENAI_API_KEY, or providers.openai in the configuration"
	Marketplace bool   // it serves the models of many vendors
}

// Knowing is the resolver that also knows which providers could be enabled, so that a refusal names what to enable.
func (r *Resolver) Knowing(available map[policy.ProviderID]Available) *Resolver {
	out := *r
	out.available = available
	return &out
}

// marketplace is the provider that is named where no vendor serves a model, "" if there is none.
func (r *Resolver) marketplace() policy.ProviderID {
	for id, a := range r.available {
		if a.Marketplace {
			return id
		}
	}
	return ""
}
