package record

import (
	"encoding/json"
	"errors"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Request is GET /v1/requests/{id}: the record that the ledger stores. It has no content.
type Request struct {
	RequestID        string                 `json:"request_id"`
	CreatedAt        time.Time              `json:"created_at"`
	Status           string                 `json:"status"`
	Error            string                 `json:"error,omitempty"`
	ErrorMessage     string                 `json:"error_message,omitempty"` // only of errors that quote nothing of the request: of routing, privacy tiers and plans
	HTTPStatus       int                    `json:"http_status"`
	Dialect          chat.Dialect           `json:"dialect"`
	Stream           bool                   `json:"stream"`
	Path             string                 `json:"path"`
	RequestedModel   string                 `json:"requested_model"`
	Provider         policy.ProviderID      `json:"provider,omitempty"`
	Model            policy.ModelID         `json:"model,omitempty"`
	Subsystem        string                 `json:"subsystem,omitempty"`
	Task             string                 `json:"task,omitempty"`   // the agent's tick type or subsystem, else the inferred task
	Regime           string                 `json:"regime,omitempty"` // stated by the agent
	SecurityClass    string                 `json:"security_class,omitempty"`
	PrivacyTier      string                 `json:"privacy_tier,omitempty"` // required tier
	Attempts         int                    `json:"attempts"`
	AttemptLog       []Attempt              `json:"attempt_log"`
	Degraded         []string               `json:"degraded"`
	InputTokens      int64                  `json:"input_tokens"`
	CachedTokens     int64                  `json:"cached_tokens"`
	CacheWriteTokens int64                  `json:"cache_write_tokens"`
	OutputTokens     int64                  `json:"output_tokens"`
	ReasoningTokens  int64                  `json:"reasoning_tokens"`
	UsageEstimated   bool                   `json:"usage_estimated"`
	PriceKnown       bool                   `json:"price_known"`
	ServiceTier      string                 `json:"service_tier,omitempty"` // the tier that was billed; "" for the default one
	ProviderCostUSD  policy.Pico            `json:"provider_cost_usd"`
	CostUSD          policy.Micro           `json:"cost_usd"`
	SpreadPct        int                    `json:"spread_pct"`
	Invoice          []Line                 `json:"invoice,omitempty"`
	Schema           string                 `json:"schema,omitempty"` // how the schema was enforced, and the result
	Verification     *Verification          `json:"verification,omitempty"`
	Escalation       *Escalation            `json:"escalation,omitempty"`
	Hedge            *Hedge                 `json:"hedge,omitempty"`
	Decisions        []policy.Tag           `json:"decisions,omitempty"`       // of the operator's rules
	Policies         policy.Guards          `json:"policies,omitzero"`         // the key's own
	Budget           *policy.OverBudget     `json:"budget,omitempty"`          // the budget that refused the request
	BudgetDecision   *policy.BudgetDecision `json:"budget_decision,omitempty"` // effect of a budget or an empty balance
	Attestation      string                 `json:"attestation,omitempty"`     // the hash of the token of an attested answer
	Cache            string                 `json:"cache"`
	CacheEntry       string                 `json:"cache_entry,omitempty"` // id of the stored answer that was served, or under which this one may be stored
	Similarity       float64                `json:"similarity,omitempty"`  // to the stored answer's question, if it differs
	SavingsUSD       policy.Micro           `json:"savings_usd"`           // by all layers together; negative if they cost more than they saved
	Savings          []policy.Saving        `json:"savings,omitempty"`     // by layer
	Pipeline         string                 `json:"pipeline,omitempty"`
	SideCalls        []SideCall             `json:"side_calls,omitempty"` // billed side calls of layers; usage and cost above include them
	LatencyMS        int64                  `json:"latency_ms"`
	FirstTokenMS     int64                  `json:"first_token_ms,omitempty"`
}

// Line is a part of the provider cost. The lines add up to it; with the spread, to the cost.
type Line struct {
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
	Layer    string            `json:"layer,omitempty"` // the layer that made the call; "" for the request's own
	Kind     string            `json:"kind"`
	Count    int64             `json:"count,omitempty"` // tokens, or searches for that kind
	Price    policy.Micro      `json:"usd_per_million,omitempty"`
	CostUSD  policy.Pico       `json:"cost_usd"`
	Source   string            `json:"price_source,omitempty"`
	Updated  time.Time         `json:"price_updated,omitzero"` // when the price was valid
	Hours    string            `json:"price_hours,omitempty"`  // part of the day for which the price applies
}

// Verification is the verification of a request by a second model.
type Verification struct {
	Result     string  `json:"result"`
	Reason     string  `json:"reason,omitempty"`
	By         *Model  `json:"by,omitempty"`    // the second model
	Given      string  `json:"given,omitempty"` // the answer that was returned: first or second
	StricterBy string  `json:"stricter_by,omitempty"`
	Fields     []Field `json:"fields,omitempty"`
}

// SideCall is a billed side call of a layer.
type SideCall struct {
	Layer        string            `json:"layer"`
	Provider     policy.ProviderID `json:"provider"`
	Model        policy.ModelID    `json:"model"`
	InputTokens  int64             `json:"input_tokens"`
	OutputTokens int64             `json:"output_tokens"`
	CostUSD      policy.Pico       `json:"provider_cost_usd"`
}

// Model is a model at a provider.
type Model struct {
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
}

// Field is one compared field of the two answers.
type Field struct {
	Path   string          `json:"path"`
	Agree  bool            `json:"agree"`
	First  json.RawMessage `json:"first,omitempty"` // only in the client's answer, never stored
	Second json.RawMessage `json:"second,omitempty"`
}

// Escalation is the repetition of a request with a stronger model.
type Escalation struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Reason string `json:"reason"`
	By     *Model `json:"asked_first"`
}

// Fill completes the record r of a request that began at began with its trace. r has the request's own fields already.
func (t *Trace) Fill(r *Request, began time.Time) {
	r.HTTPStatus, _ = t.Verdict()
	r.CreatedAt, r.LatencyMS, r.FirstTokenMS = began.UTC(), time.Since(began).Milliseconds(), t.FirstToken.Milliseconds()
	r.Attempts, r.AttemptLog, r.Cache, r.Similarity = len(t.Attempts), t.Attempts, t.Cache.OrMiss(), t.Similarity
	r.BudgetDecision, r.Hedge = t.Budget, t.Hedge
	if t.Fault != nil {
		r.Error = t.Fault.Recorded()
		if k := t.Fault.Kind; (t.Fault.Plain || k == fault.NoProvider || k == fault.NoPrivateProvider) && !t.Fault.Quiet {
			r.ErrorMessage = t.Fault.Public
		}
		r.Budget, _ = errors.AsType[*policy.OverBudget](t.Fault)
	}
	if t.Settled != nil {
		r.fillSettled(t.Settled)
	}
}

func (r *Request) fillSettled(s *Settlement) {
	u := &s.Usage
	r.Status, r.Provider, r.Model, r.PriceKnown = s.Outcome, s.By.Provider, s.By.Model, s.By.Prices.Known
	r.InputTokens, r.CachedTokens, r.CacheWriteTokens = u.TotalInput(), u.Cached, u.CacheWrite+u.CacheWrite1h
	r.OutputTokens, r.ReasoningTokens, r.UsageEstimated = u.Output, u.Reasoning, u.Estimated
	r.ProviderCostUSD, r.CostUSD, r.SavingsUSD, r.Savings = s.Cost, s.Charged, s.Saved, s.Savings
}
