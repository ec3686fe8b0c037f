// Package record is what a request leaves behind: the names of how it ended, the record that the ledger stores and GET /v1/requests/{id} shows,
// and the line that those who watch the gateway get. None of it has content or credentials.
package record

import (
	"encoding/json"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// How a request ended, in its record and in the metrics.
const (
	OK           = "ok"
	Cut          = "cut"       // the provider broke off after the first content
	Cancelled    = "cancelled" // the client disconnected after the first content
	Invalid      = "invalid"   // no answer followed the schema that was asked for
	Failed       = "failed"    // the client got an error and nothing else
	Disconnected = "left"      // the client disconnected before the first content
)

// ClientClosed is how an attempt ended whose client disconnected before anything of its answer came.
const ClientClosed = "client_closed"

// Attempt is one attempt in a request's record.
type Attempt struct {
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
	Outcome  string            `json:"outcome"`               // ok, or why it failed
	Reason   string            `json:"reason,omitempty"`      // the same for people, of one that failed
	Next     string            `json:"next,omitempty"`        // what was done then: stop, repeat, amend, next_candidate, validation_retry
	NextWhy  string            `json:"next_reason,omitempty"` // why that
}

// Request is GET /v1/requests/{id}.
type Request struct {
	RequestID        string            `json:"request_id"`
	CreatedAt        time.Time         `json:"created_at"`
	Status           string            `json:"status"`
	Error            string            `json:"error,omitempty"`
	HTTPStatus       int               `json:"http_status"`
	Dialect          chat.Dialect      `json:"dialect"`
	Stream           bool              `json:"stream"`
	Path             string            `json:"path"`
	RequestedModel   string            `json:"requested_model"`
	Provider         policy.ProviderID `json:"provider,omitempty"`
	Model            policy.ModelID    `json:"model,omitempty"`
	Subsystem        string            `json:"subsystem,omitempty"`
	Attempts         int               `json:"attempts"`
	AttemptLog       []Attempt         `json:"attempt_log"`
	Degraded         []string          `json:"degraded"`
	InputTokens      int64             `json:"input_tokens"`
	CachedTokens     int64             `json:"cached_tokens"`
	CacheWriteTokens int64             `json:"cache_write_tokens"`
	OutputTokens     int64             `json:"output_tokens"`
	ReasoningTokens  int64             `json:"reasoning_tokens"`
	UsageEstimated   bool              `json:"usage_estimated"`
	PriceKnown       bool              `json:"price_known"`
	ServiceTier      string            `json:"service_tier,omitempty"` // that the answer was billed in; "" for the usual one
	ProviderCostUSD  policy.Pico       `json:"provider_cost_usd"`
	CostUSD          policy.Micro      `json:"cost_usd"`
	SpreadPct        int               `json:"spread_pct"`
	Schema           string            `json:"schema,omitempty"` // how the answer's form was asked for, and whether it has it
	Verification     *Verification     `json:"verification,omitempty"`
	Escalation       *Escalation       `json:"escalation,omitempty"`
	Cache            string            `json:"cache"`
	SavingsUSD       policy.Micro      `json:"savings_usd"`
	Pipeline         string            `json:"pipeline,omitempty"`
	LatencyMS        int64             `json:"latency_ms"`
	FirstTokenMS     int64             `json:"first_token_ms,omitempty"`
}

// Verification is what there is to say of a request's verification.
type Verification struct {
	Result     string  `json:"result"`
	Reason     string  `json:"reason,omitempty"`
	By         *Model  `json:"by,omitempty"`    // who was asked besides the one that answers
	Given      string  `json:"given,omitempty"` // first or second
	StricterBy string  `json:"stricter_by,omitempty"`
	Fields     []Field `json:"fields,omitempty"`
}

// Model is who was asked.
type Model struct {
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
}

// Field is one field of two answers.
type Field struct {
	Path   string          `json:"path"`
	Agree  bool            `json:"agree"`
	First  json.RawMessage `json:"first,omitempty"` // for the caller's own eyes; no record has them
	Second json.RawMessage `json:"second,omitempty"`
}

// Escalation is what a request's record says of its escalation.
type Escalation struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Reason string `json:"reason"`
	By     *Model `json:"asked_first"`
}

// Finished is one client request at its end, for people who watch. It has none of the request's content and no credential. What a
// client chose freely, the model that it asked for, is cut to a bounded length.
type Finished struct {
	ID             string            `json:"id"`
	At             time.Time         `json:"at"`
	Account        policy.Account    `json:"account"`   // the key's id; "" without a key
	Operation      string            `json:"operation"` // chat, count_tokens, explain, passthrough; other without an endpoint
	Dialect        chat.Dialect      `json:"dialect"`
	Subsystem      string            `json:"subsystem,omitempty"`
	Stream         bool              `json:"stream"`
	RequestedModel string            `json:"requested_model"`
	Model          policy.ModelID    `json:"model"` // "" when nobody answered
	Provider       policy.ProviderID `json:"provider"`
	Attempts       []Attempt         `json:"attempt_log"`
	Status         int               `json:"status"`          // HTTP
	Code           string            `json:"error,omitempty"` // of the fault that the client got
	Outcome        string            `json:"outcome"`         // ok, cut, cancelled, failed, left
	InputTokens    int64             `json:"input_tokens"`
	CachedTokens   int64             `json:"cached_tokens"`
	OutputTokens   int64             `json:"output_tokens"`
	Cost           policy.Micro      `json:"cost_usd"`
	Savings        policy.Micro      `json:"savings_usd"`
	Cache          string            `json:"cache"`
	LatencyMS      int64             `json:"latency_ms"`
	FirstTokenMS   int64             `json:"first_token_ms,omitempty"`
}

// What a request counts as whose client disconnected before it was answered; no client ever sees them.
const (
	StatusClientClosed = 499
	CodeClientClosed   = "client_closed"
)
