// Package runtime is the configuration as requests use it: providers and their adapters, timeouts, limits, prices, and what a candidate can serve and
// costs extra. A new value is made for each configuration.
package runtime

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/classifier"
	"bardo.money/gateway/extproc/cognition"
	"bardo.money/gateway/extproc/epoch"
	"bardo.money/gateway/extproc/governor"
	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/extproc/localembed"
	"bardo.money/gateway/extproc/mcp"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/origin"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/profile"
	"bardo.money/gateway/policy/resolve"
)

// Config is the configuration as requests use it. It is immutable and replaced as a whole; a request keeps the one that was current when it arrived.
type Config struct {
	Providers Providers
	Resolver  *resolve.Resolver
	Intents   intent.Rules
	Pipeline  *pipeline.Pipeline
	Profiles  *profile.Profiles // nil: only the built-in table
	Wallet    budget.Wallet     // the wallet that pays for agents' inference; its state scales their budgets
	Stake     policy.Micro      // what staked credit pays per day; 0: as the callers' hints state
	Dialects  map[chat.Dialect]wire.Dialect
	Timeouts  Timeouts
	// Keyless admits requests without a credential, of programs on this machine: Demo while only the demo provider exists,
	// Anyone when the operator switched authentication off.
	Keyless       Keyless
	Known         origin.Rule // the Host values and origins that are accepted without a key
	Origins       []string    // pages that may read answers; "*": all
	MaxRetries    int         // attempts of one request beyond the first
	Hedging       Hedging
	MaxBody       int64 // bytes of a request
	MaxBodies     int64 // bytes of all requests' bodies together; 0 means no bound
	MaxAnswer     int64 // maximum bytes of a driven answer: Envoy buffers it for a slow client
	ReserveOutput int   // tokens reserved for a request that names no maximum
	SpreadPct     map[policy.Tier]int
	Free          map[policy.Tier]bool // plans whose keys have a model that is free for them
	Cheaper       policy.Cheaper       // handling of requests that exceed their budgets or balances
	TakesKeys     []policy.ProviderID  // the providers that accept X-Bardo-Upstream-Key
	DefaultSpread int
	Plans         bool // the operator uses plans
	EgressSecret  string
	Hooks         []policy.ProviderID // Envoy's clusters of guardrails and MCP servers
	MCP           []mcp.Server
	MCPCalls      int                // of one key at the same time; 0 means no limit
	MCPAuth       *mcp.Authorization // of MCP clients by OAuth; nil: off
	Firewall      firewall.Layer     // rules for tools of MCP servers
	Secrets       *secret.Redactor   // knows every configured credential; nil knows none
	Structured    Structured
	VerifyRisk    VerifyRisk
	SearchBudget  policy.Micro // budget for web searches per dream cycle, at provider prices
	Escalation    Escalation
	Embeddings    Embeddings
	Classifier    *classifier.Classifier // judges prompts for model auto; nil: only the rules decide
	Governor      governor.Options       // for the settings of layers
	Cognition     cognition.Settings     // for the records of the private provider
	Epochs        epoch.Rules            // for the keys of prompts in providers' caches

	Phase func(policy.Account, policy.Phase) // called with a request's phase of life; may be nil
}

// Embeddings configures embeddings for requests that name no provider's model.
type Embeddings struct {
	Local  *localembed.Model // serves its own name, and requests that name none; nil for none
	Remote string            // "provider/model" for requests that name none; "": they are refused
}

// Hedging configures the call of a second candidate if the first is slow.
type Hedging struct {
	After    time.Duration // without content; 0: off
	SharePct int           // maximum percentage of requests that have a second call
}

// Keyless determines who may send requests without an API key.
type Keyless uint8

// The cases.
const (
	KeylessNobody Keyless = iota
	KeylessDemo
	KeylessAnyone
)

// Timeouts are the time limits of one request. All are positive, except those of uploads, where 0 means no limit.
type Timeouts struct {
	UploadIdle          time.Duration // between two chunks of a request's body, and until the first
	UploadTotal         time.Duration // for the whole body
	FirstToken          time.Duration // from sending an attempt to its first content
	FirstTokenReasoning time.Duration // the same for a request with reasoning
	Idle                time.Duration // between two chunks of an answer
	Total               time.Duration // from the first attempt to the last byte
	Heartbeat           time.Duration // silence after which a driven stream gets a comment
}

// ForFirstToken returns the timeout of this request's attempts until their first content.
func (t Timeouts) ForFirstToken(r *chat.Request) time.Duration {
	if r.Thinking {
		return t.FirstTokenReasoning
	}
	return t.FirstToken
}

// tokensPerFirstToken is the number of output tokens per which the timeout of an answer that is not streamed grows by one first-token timeout.
const tokensPerFirstToken = 1024

// ForAnswer returns the timeout of an answer that is not streamed: it grows with the maximum number of output tokens, up to Total.
func (t Timeouts) ForAnswer(r *chat.Request, outputTokens int) time.Duration {
	first := t.ForFirstToken(r)
	d := first + first*time.Duration(outputTokens)/tokensPerFirstToken
	if d > t.Total || d < first {
		return t.Total
	}
	return d
}

// Spread returns the percentage added to a provider's cost for a caller: that of its plan, or of its agent's reputation if that is lower. With plans,
// reputation counts only in the golem plan (D-51).
func (rt *Config) Spread(p *policy.Principal) int {
	pct, planned := rt.SpreadPct[p.Tier]
	if !planned {
		pct = rt.DefaultSpread
	}
	if p.ReputationSpread > 0 && (!rt.Plans || p.Tier == policy.TierGolem) {
		pct = min(pct, p.ReputationSpread)
	}
	return pct
}

// SubsystemRisk is the subsystem whose answers are verified by default (VerifyRisk).
const SubsystemRisk = "risk"
