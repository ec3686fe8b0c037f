// Package policy defines the values that routing, limits and billing share: principals, hints, intents, resolutions, money. It does not know
// HTTP, Envoy, a store or a provider's format.
package policy

import (
	"net/netip"
	"slices"
	"time"
)

// Account names a key's ledger account; it is the public part (id) of the key.
type Account string

// ModelID is a model's id in the merged catalog, e.g. "claude-sonnet-4-5".
type ModelID string

// ProviderID names a configured provider: "openai", or the id of a custom one.
type ProviderID string

// Tier is the plan of a key.
type Tier string

// The plans (feature tiers).
const (
	TierFree  Tier = "free"
	TierPro   Tier = "pro"
	TierGolem Tier = "golem"
)

// FreePool is the account whose stored answers the keys of the free plan share, where the operator allows it. No key can have this id: account ids
// have no slash.
const FreePool = "pool/free"

// Principal is the identity that a request is accounted to. The zero value has none.
type Principal struct {
	Account   Account // "" for an anonymous caller
	Name      string
	Tier      Tier
	Prepaid   bool   // has a balance that a request must reserve from; otherwise metered, never refused
	ReadOnly  bool   // may read models, balance, usage; may not generate
	Anonymous bool   // admitted without a key: demo provider, or auth.anonymous
	Session   string // the session that the key is bound to; "" for an ordinary key
	Limits    Limits
	Guards    Guards
	Networks  []netip.Prefix // when set, the client's address must be inside one
	Scope     Scope
	Project   string   // that the key is in; "" for none
	Owner     string   // of Project; "" for none
	Budgets   []Budget // in addition to Limits.SpendPerDay: each request must fit into all of them

	// Publishable is set for a key that its owner shows to others, such as a web page's: it may generate, and read models and its balance.
	Publishable bool

	Body *[32]byte // required SHA-256 of the request's body, from the request's proof; nil: any

	ReputationSpread int // percent on a provider's cost, from the reputation of the account's agent; 0: none
}

// Limits are a principal's rate and spend limits. Zero means the configured default applies; Unlimited means none.
type Limits struct {
	RPM           int   // generation requests per minute
	TokensPerHour int64 // hourly token allowance
	SpendPerDay   Micro // charged amount per UTC day
}

// Unlimited removes a limit.
const Unlimited = -1

// Feature is a capability of a model or provider.
type Feature string

// Resolution is a candidate for a request: a model at a provider.
type Resolution struct {
	Provider  ProviderID
	Model     ModelID // id shown to the client
	Upstream  string  // the name the provider knows the model by
	Prices    Prices
	MaxOutput int       // the model's output limit in tokens, 0 if unknown
	Context   int       // the model's window in tokens, 0 if unknown
	Features  []Feature // features of the model at the provider
	Degraded  []string  // requested features that are missing
	Score     float64   // from the scorer, 0 to 1; 0 if not scored
	Private   bool      // the provider retains nothing
	Why       string    // reason of its position, only for explanations
	Terms     *Terms    // terms of the score, only for explanations

	Family     string   // such as "claude"; determines model-specific behaviour
	Reasoning  string   // how its answers return reasoning: auto, none or a dialect
	Efforts    []string // supported efforts, lowest first; nil means any
	Control    ReasoningControl
	Thinks     ThinkingDefault
	ToolFormat string // how it calls tools: "" natively, else the dialect of its text (hermes, qwen, json)
	MinCache   int    // least tokens of a prompt that its provider caches, 0 if unknown

	ImplicitOpen      bool // answers start with reasoning whose opening tag is in the prompt
	AdaptiveThinking  bool // reasoning is controlled by an effort, not by a token budget
	StructuredOutputs bool // the provider enforces response schemas
	NoSignatures      bool // the model's family does not sign reasoning, and ignores signatures
	FixedSampling     bool // the model refuses non-default temperature, top_p and penalties
	SchemaAlone       bool // the model accepts a response schema or functions, not both
	ResponsesOnly     bool // the model is only available in the Responses API

	// Undescribed is set if the model's capabilities are unknown. Those that it is known to lack are in Lacks.
	Undescribed bool
	Lacks       []Feature

	Staked *Prices // regular prices of an answer that staked credit pays for; nil otherwise

	Without Without
}

// Terms are the terms of a score: each is a value (0 to 1) times its weight.
type Terms struct {
	Cost, Quality, Latency, Features Term
	Expected                         Pico // expected cost of the request; 0 if its model was named
}

// Term is one term of a score.
type Term struct {
	Value  float64 `json:"value"`
	Weight float64 `json:"weight"`
}

// May reports whether the model has a feature, or its capabilities are unknown.
func (r *Resolution) May(f Feature) bool {
	return slices.Contains(r.Features, f) || r.Undescribed && !slices.Contains(r.Lacks, f)
}

// Without is what an attempt leaves out of its request after the provider refused it. The zero value leaves out nothing.
type Without struct {
	SealKeys    int      // number of an enclave's keys, from the first, that it does not have any more
	Thinking    bool     // reasoning in the history
	Extras      bool     // members that clients add to messages or send back, beyond those of the format
	Effort      bool     // any effort: the provider does not support functions with reasoning
	Summary     bool     // the summary of the reasoning
	Betas       []string // beta flags of the provider's API
	Params      []string // parameters of the profile that the gateway added
	Completions bool     // the legacy completions endpoint: use chat completions instead
}

// Outcome is what the result of an attempt means for a provider's health.
type Outcome uint8

// The outcomes.
const (
	Succeeded   Outcome = iota
	Failed              // reset, timeout, 5xx, error event
	RateLimited         // 429: a cooldown of RetryAfter; not a failure
	Ignored             // the client's error, or an unsupported path
	Unreachable         // no connection
	Refused             // 401, 403: the provider refuses the gateway's credential
)

// Result is one attempt's outcome as health sees it.
type Result struct {
	Provider   ProviderID
	Outcome    Outcome
	RetryAfter time.Duration // with RateLimited; 0 if the provider did not say
	Latency    time.Duration // with Succeeded: until the first content, or the whole answer
	Reason     string        // with Refused: the status and the provider's message without credentials
}
