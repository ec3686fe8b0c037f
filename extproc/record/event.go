package record

import (
	"time"

	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
)

// The events of requests, for `bardo watch` and telemetry.events: names and fields. None has content. Those of schemas, verification and escalation
// are in extproc/review.

// The events of routing.
var (
	EventResolved   = event.Declare[ProviderResolved]("provider:resolved", "A request is routed: its first candidate.")
	EventNegotiated = event.Declare[FeaturesNegotiated]("provider:feature_negotiated", "A request asked for features: which of them the first candidate has.")
	EventFallback   = event.Declare[ProviderFallback]("provider:fallback", "A provider failed, and the next one is tried.")
)

// EventRetention is the event of an answer that was discarded because its provider did not confirm zero retention.
var EventRetention = event.Declare[RetentionError]("venice:retention_error", "The answer to a private request was discarded: its provider did not confirm that it retains nothing.").Audited()

// EventRelaxed is the event of a request that requires an enclave and is served without one (D-12).
var EventRelaxed = event.Declare[PrivacyRelaxed]("venice:privacy_relaxed", "A task that needs an enclave is served without one.").Audited()

// The events of answers.
var (
	EventCacheStats = event.Declare[CacheStats]("inference:cache_stats", "An answer read or wrote its provider's prompt cache.")
	EventReasoning  = event.Declare[ReasoningExtracted]("venice:reasoning_extracted", "An answer of Venice has reasoning.")
	EventSearched   = event.Declare[WebSearched]("inference:web_search_used", "A provider searched the web.")
	EventVenice     = event.Declare[WebSearched]("venice:web_search", "Venice searched the web.")
)

// The events of profiles.
var (
	EventProfileApplied  = event.Declare[ProfileApplied]("inference:profile_applied", "A profile set parameters of a request.")
	EventProfileDegraded = event.Declare[ProfileDegraded]("inference:profile_degraded", "A provider has no parameter for a part of a profile.")
)

// EventCaptured is the event of an answer with reasoning: its amount, not its content.
var EventCaptured = event.Declare[ReasoningCaptured]("inference:reasoning_captured", "An answer showed reasoning, or its provider counted some.")

// EventCapped is the event of a provider that reported more usage than a call can have.
var EventCapped = event.Declare[UsageCapped]("inference:usage_capped", "A provider reported more usage than a call can have.")

// EventBudget is the event of a subsystem that has spent its budget.
var EventBudget = event.Declare[BudgetExhausted]("inference:budget_exhausted", "A subsystem has spent its budget.")

// EventDowngrade is the event of a request that its budgets or balance do not cover, and of the consequence.
var EventDowngrade = event.Declare[Downgrade]("inference:budget_decision", "The budgets or the balance of a request do not pay for it: what became of it.")

// EventDecision is the event of a decision by the operator's rules other than "allowed".
var EventDecision = event.Declare[DecisionMade]("policy:decision", "A rule of the operator did not simply let something pass.")

// EventToolCall is the event of a call of an MCP server's tool through the gateway, allowed or not.
var EventToolCall = event.Declare[DecisionMade]("mcp:tool_call", "A client called a tool of an MCP server: what the operator's rules said.").Audited()

// ProviderResolved is the event of a decision: the first candidate.
type ProviderResolved struct {
	RequestID string            `json:"request_id"`
	Subsystem string            `json:"subsystem"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
	Features  []policy.Feature  `json:"features"`
	Degraded  []string          `json:"degraded"`
}

// FeaturesNegotiated lists which of the requested features the first candidate has.
type FeaturesNegotiated struct {
	RequestID string           `json:"request_id"`
	Subsystem string           `json:"subsystem"`
	Requested []policy.Feature `json:"requested"`
	Available []policy.Feature `json:"available"`
	Mode      string           `json:"mode"` // full: all requested features are available; degraded
}

// ProviderFallback is the event of a failover to another provider.
type ProviderFallback struct {
	RequestID string            `json:"request_id"`
	Failed    policy.ProviderID `json:"failed"`
	Fallback  policy.ProviderID `json:"fallback"`
	Reason    string            `json:"reason"`
}

// PrivacyRelaxed is the event of a task that continues without the enclave that it requires.
type PrivacyRelaxed struct {
	RequestID string            `json:"request_id"`
	Subsystem string            `json:"subsystem"`
	TaskClass string            `json:"task_class,omitempty"`
	Tier      string            `json:"privacy_tier"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
}

// RetentionError is the event of a discarded answer.
type RetentionError struct {
	RequestID string            `json:"request_id"`
	Subsystem string            `json:"subsystem"`
	TaskClass string            `json:"task_class,omitempty"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
	Error     string            `json:"error"`
	Reason    string            `json:"reason"` // which header is missing or differs, without its value
}

// CacheStats is the event of an answer that read or wrote its provider's prompt cache.
type CacheStats struct {
	RequestID string            `json:"request_id"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
	Written   int64             `json:"cache_write_tokens"`
	Subsystem string            `json:"subsystem"`
	Cached    int64             `json:"cached_tokens"`
	Total     int64             `json:"total_tokens"`
	Savings   policy.Pico       `json:"savings_usd"` // at the provider's prices, against the same tokens uncached; negative if only the write premium was paid
}

// ReasoningExtracted is the event of an answer of Venice that has reasoning.
type ReasoningExtracted struct {
	RequestID string `json:"request_id"`
	Subsystem string `json:"subsystem"`
	Tokens    int64  `json:"reasoning_tokens"`
}

// WebSearched is the event of a provider's web search. It does not contain the query.
type WebSearched struct {
	RequestID string            `json:"request_id"`
	Subsystem string            `json:"subsystem"`
	Provider  policy.ProviderID `json:"provider"`
	Searches  int64             `json:"searches"` // at least
}

// ReasoningCaptured is the event of an answer with reasoning.
type ReasoningCaptured struct {
	RequestID   string            `json:"request_id"`
	Subsystem   string            `json:"subsystem"`
	Provider    policy.ProviderID `json:"provider"`
	Model       policy.ModelID    `json:"model"`
	Visibility  string            `json:"visibility"`
	Tokens      int64             `json:"reasoning_tokens"`
	Estimated   bool              `json:"estimated"`
	Interleaved bool              `json:"interleaved"`
	Surface     string            `json:"surface"`
}

// UsageCapped is the event of a provider that reported more usage than a call can have: the reported and the maximum usage.
type UsageCapped struct {
	RequestID string            `json:"request_id"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
	Input     int64             `json:"reported_input_tokens"`
	Output    int64             `json:"reported_output_tokens"`
	Cost      policy.Pico       `json:"reported_cost_usd"`
	Most      int64             `json:"most_tokens"`
}

// BudgetExhausted is the event of a subsystem that has spent its budget.
type BudgetExhausted struct {
	RequestID string       `json:"request_id"`
	GolemID   string       `json:"golem_id,omitempty"`
	Subsystem string       `json:"subsystem"`
	Part      string       `json:"part"`
	Degraded  string       `json:"degraded"`
	Budget    policy.Micro `json:"budget_usd"`
	Spent     policy.Micro `json:"spent_usd"`
	Held      policy.Micro `json:"held_usd"` // reserved by requests in flight
}

// Downgrade is the event of what a budget or an empty balance changed in a request.
type Downgrade struct {
	RequestID string `json:"request_id"`
	Subsystem string `json:"subsystem,omitempty"`
	policy.BudgetDecision
}

// ProfileApplied is the event of what a profile set in a request.
type ProfileApplied struct {
	Subsystem       string `json:"subsystem"`
	Temperature     string `json:"temperature,omitempty"` // after the client's parameter, the profile and vitality
	ReasoningEffort string `json:"reasoning_effort,omitempty"`
	Structured      bool   `json:"structured"`
	Cached          bool   `json:"cached"`
}

// ProfileDegraded is the event of profile parameters that an attempt's provider does not support.
type ProfileDegraded struct {
	Subsystem string   `json:"subsystem"`
	Degraded  []string `json:"degraded"`
}

// DecisionMade is the event of a decision by the operator's rules.
type DecisionMade struct {
	RequestID string `json:"request_id"`
	Subsystem string `json:"subsystem,omitempty"`
	GolemID   string `json:"golem_id,omitempty"`
	policy.Tag
}

// EventQuarantined is the event of a model that is not called for a while.
var EventQuarantined = event.Declare[Quarantined]("catalog:model_quarantined", "A provider does not have a model that its list has.")

// Quarantined is the event of a listed model that its provider does not have.
type Quarantined struct {
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
	Upstream string            `json:"upstream"`
	Status   int               `json:"status"`
	Until    time.Time         `json:"until"`
}
