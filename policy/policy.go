// Package policy holds the nouns of every decision the gateway takes: who asks, what it may cost, who could serve it.
// Nothing here knows about HTTP, Envoy, a store or a provider's format.
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

// Principal is who a request is accounted to. The zero value is nobody.
type Principal struct {
	Account   Account // "" for an anonymous caller
	Name      string
	Tier      Tier
	Prepaid   bool // has a balance that a request must reserve from; otherwise metered, never refused
	ReadOnly  bool // may read models, balance, usage; may not generate
	Anonymous bool // admitted without a key: demo provider, or auth.anonymous
	Limits    Limits
	Networks  []netip.Prefix // when set, the client's address must be inside one
}

// Limits are a principal's rate and spend limits. Zero means the configured default applies; Unlimited means none.
type Limits struct {
	RPM           int   // generation requests per minute
	TokensPerHour int64 // hourly token allowance
	SpendPerDay   Micro // charged amount per UTC day
}

// Unlimited switches a limit off.
const Unlimited = -1

// Feature is a capability of a model or provider by its one spelling.
type Feature string

// Resolution is one way to serve a request: a model at a provider. A request carries an ordered list of them.
type Resolution struct {
	Provider  ProviderID
	Model     ModelID // id shown to the client
	Upstream  string  // the name the provider knows the model by
	Prices    Prices
	MaxOutput int       // the model's output limit in tokens, 0 if unknown
	Context   int       // the model's window in tokens, 0 if unknown
	Features  []Feature // what the model has there, by the catalog and the configuration
	Degraded  []string  // what was asked for and is not there
	Score     float64   // of the scorer, 0 to 1; 0 where the order was not scored
	Private   bool      // the provider retains nothing
	Why       string    // why it stands here, for people; "" on a request's path
	Terms     *Terms    // what the score is made of, for people; nil on a request's path, and where it was not scored

	Family     string   // "claude": what the model's own quirks go by
	Reasoning  string   // where its reasoning is found: auto, none or a dialect
	Efforts    []string // the efforts that it takes, least first; nil: whatever comes
	Control    ReasoningControl
	Thinks     ThinkingDefault
	ToolFormat string // how it calls tools: "" natively, else the dialect of its text (hermes, qwen, json)
	MinCache   int    // least tokens of a prompt that its provider caches, 0 if unknown

	ImplicitOpen      bool // its prompt opens its thoughts: answers begin inside of them
	AdaptiveThinking  bool // the model thinks by an effort, and takes no budget of thinking tokens
	StructuredOutputs bool // the model's provider enforces a schema of the answer
	NoSignatures      bool // the model is known to be of a family that does not sign its thinking: another's signatures mean nothing to it
	FixedSampling     bool // the model refuses any temperature, top_p and penalties but the usual ones
	SchemaAlone       bool // the model takes a schema of the answer or functions, not both
	ResponsesOnly     bool // the model is served in OpenAI's Responses alone, where its provider speaks that

	// Undescribed is set where nobody said what the model can do. What it is known to lack then stands in Lacks.
	Undescribed bool
	Lacks       []Feature

	Staked *Prices // what the answer is worth that staked credit pays for; nil where it does not

	Without Without
}

// Terms are what a score is the sum of: each value, 0 to 1, times its weight.
type Terms struct {
	Cost, Quality, Latency, Features Term
	Expected                         Pico // what the request will probably cost there; 0 where its model was named
}

// Term is one of them.
type Term struct {
	Value  float64 `json:"value"`
	Weight float64 `json:"weight"`
}

// May reports whether the model has a feature, or may have it for all that anybody knows.
func (r *Resolution) May(f Feature) bool {
	return slices.Contains(r.Features, f) || r.Undescribed && !slices.Contains(r.Lacks, f)
}

// Without is what an attempt leaves out of its request because the provider refused it there. The zero value is nothing.
type Without struct {
	Thinking    bool     // of the history
	Effort      bool     // any: the provider's format has functions or thinking, not both
	Summary     bool     // of what the model thinks
	Betas       []string // flags of the provider's API
	Params      []string // parameters that the gateway itself said, of the request's profile
	Completions bool     // the endpoint for a prompt: it is asked for a turn of a conversation
}

// Outcome is what one attempt says about a provider's health.
type Outcome uint8

// The outcomes.
const (
	Succeeded   Outcome = iota
	Failed              // reset, time-out, 5xx, error event
	RateLimited         // 429: it cools down for RetryAfter and is not broken
	Ignored             // the caller's own mistake, or a path that the provider lacks
	Unreachable         // no connection
	Refused             // 401, 403: the provider does not take the gateway's credential
)

// Result is one attempt's outcome as health sees it.
type Result struct {
	Provider   ProviderID
	Outcome    Outcome
	RetryAfter time.Duration // with RateLimited; 0 if the provider did not say
	Latency    time.Duration // with Succeeded: until the first content, or the whole answer
	Reason     string        // with Refused: the status, and the provider's words without credentials
}
