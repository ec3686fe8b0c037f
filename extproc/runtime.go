package extproc

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/keyring"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/origin"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/profile"
	"bardo.money/gateway/policy/resolve"
)

// Runtime is everything a request needs of the configuration. It is immutable and swapped whole; an exchange keeps the one it
// began with.
type Runtime struct {
	Providers map[policy.ProviderID]Provider
	Resolver  *resolve.Resolver
	Intents   intent.Rules
	Pipeline  *pipeline.Pipeline
	Profiles  *profile.Profiles // nil: the built-in table alone
	Wallet    budget.Wallet     // that pays for agents' inference, and stretches or cuts their budgets
	Stake     policy.Micro      // what staked credit pays for in a day; 0: whatever callers say is there
	Dialects  map[chat.Dialect]wire.Dialect
	Timeouts  Timeouts
	// Keyless admits requests without a credential, of programs on this machine: Demo while only the demo provider exists,
	// Anyone when the operator switched authentication off.
	Keyless       Keyless
	Known         origin.Rule // the hosts under which callers without a key may know the gateway, and the origins of pages that may be callers
	Origins       []string    // of pages that may read answers; "*": all
	MaxRetries    int         // extra attempts of one request, all together
	MaxBody       int64       // bytes of a request
	MaxBodies     int64       // bytes of all requests' bodies together; 0 means no bound
	MaxAnswer     int64       // bytes of a driven answer, which Envoy would hold for a client that does not read
	ReserveOutput int         // tokens reserved for a request that names no maximum
	SpreadPct     map[policy.Tier]int
	Free          map[policy.Tier]bool // the plans whose keys can reach a model that costs them nothing
	TakesKeys     bool                 // some provider takes a key that a request brings
	DefaultSpread int
	EgressSecret  string
	Secrets       *secret.Redactor // knows every configured credential; nil knows none
	Structured    Structured
	VerifyRisk    VerifyRisk
	SearchBudget  policy.Micro // what the searches of the web of one dream cycle may cost, without the spread
	Escalation    Escalation
}

// Provider is a configured provider: how it is spoken to, and where it is.
type Provider struct {
	Adapter  provider.Adapter
	Endpoint provider.Endpoint
	Keys     []provider.Secret // all of its keys, the endpoint's first
	Ring     *keyring.Ring     // of several keys; nil for one
	Cluster  policy.ProviderID // its name in the control plane's state
	Free     bool              // the demo provider: callers without a key may use it
	Direct   bool              // a user's own key: requests cost nothing here, and pass as they are unless Engineered
	BYOK     bool              // takes a key that a request brings
	// Engineered is set where the layers work on the requests of a user's own key, too.
	Engineered bool
	// CountsTokens is set where the provider's API has a token count of its own.
	CountsTokens bool
}

// Keyless says who needs no key.
type Keyless uint8

// The cases.
const (
	KeylessNobody Keyless = iota
	KeylessDemo
	KeylessAnyone
)

// Timeouts bound one request. All are positive, but for those of uploads, where 0 means no bound.
type Timeouts struct {
	UploadIdle          time.Duration // between two pieces of a request's body, and until the first
	UploadTotal         time.Duration // for the whole body
	FirstToken          time.Duration // from sending an attempt to its first content
	FirstTokenReasoning time.Duration // the same when the model was asked to think
	Idle                time.Duration // between two pieces of an answer
	Total               time.Duration // from the first attempt to the last byte
	Heartbeat           time.Duration // silence after which a driven stream gets a comment
}

// firstToken is the bound that this request's attempts have for their first content.
func (t Timeouts) firstToken(r *chat.Request) time.Duration {
	if r.Thinking {
		return t.FirstTokenReasoning
	}
	return t.FirstToken
}

// tokensPerFirstToken is how many output tokens a provider may take a first-token time-out for when it answers in one piece.
const tokensPerFirstToken = 1024

// whole is the bound for an answer that comes in one piece: it grows with the length that was asked for.
func (t Timeouts) whole(r *chat.Request, outputTokens int) time.Duration {
	first := t.firstToken(r)
	d := first + first*time.Duration(outputTokens)/tokensPerFirstToken
	if d > t.Total || d < first {
		return t.Total
	}
	return d
}

// spread is the percentage on a provider's cost for a tier.
func (rt *Runtime) spread(t policy.Tier) int {
	if pct, ok := rt.SpreadPct[t]; ok {
		return pct
	}
	return rt.DefaultSpread
}
