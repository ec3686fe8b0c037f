package extproc

import (
	"encoding/json"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// attemptRecord is one attempt in a request's record.
type attemptRecord struct {
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
	Outcome  string            `json:"outcome"`               // ok, or why it failed
	Reason   string            `json:"reason,omitempty"`      // the same for people, of one that failed
	Next     string            `json:"next,omitempty"`        // what was done then: stop, repeat, amend, next_candidate, validate_again
	NextWhy  string            `json:"next_reason,omitempty"` // why that
}

// requestRecord is GET /v1/requests/{id}.
type requestRecord struct {
	RequestID        string              `json:"request_id"`
	CreatedAt        time.Time           `json:"created_at"`
	Status           string              `json:"status"`
	Error            string              `json:"error,omitempty"`
	HTTPStatus       int                 `json:"http_status"`
	Dialect          chat.Dialect        `json:"dialect"`
	Stream           bool                `json:"stream"`
	Path             string              `json:"path"`
	RequestedModel   string              `json:"requested_model"`
	Provider         policy.ProviderID   `json:"provider,omitempty"`
	Model            policy.ModelID      `json:"model,omitempty"`
	Subsystem        string              `json:"subsystem,omitempty"`
	Attempts         int                 `json:"attempts"`
	AttemptLog       []attemptRecord     `json:"attempt_log"`
	Degraded         []string            `json:"degraded"`
	InputTokens      int64               `json:"input_tokens"`
	CachedTokens     int64               `json:"cached_tokens"`
	CacheWriteTokens int64               `json:"cache_write_tokens"`
	OutputTokens     int64               `json:"output_tokens"`
	ReasoningTokens  int64               `json:"reasoning_tokens"`
	UsageEstimated   bool                `json:"usage_estimated"`
	PriceKnown       bool                `json:"price_known"`
	ServiceTier      string              `json:"service_tier,omitempty"` // that the answer was billed in; "" for the usual one
	ProviderCostUSD  policy.Pico         `json:"provider_cost_usd"`
	CostUSD          policy.Micro        `json:"cost_usd"`
	SpreadPct        int                 `json:"spread_pct"`
	Schema           string              `json:"schema,omitempty"` // how the answer's form was asked for, and whether it has it
	Verification     *verificationRecord `json:"verification,omitempty"`
	Escalation       *escalationRecord   `json:"escalation,omitempty"`
	Cache            string              `json:"cache"`
	SavingsUSD       policy.Micro        `json:"savings_usd"`
	Pipeline         string              `json:"pipeline,omitempty"`
	LatencyMS        int64               `json:"latency_ms"`
	FirstTokenMS     int64               `json:"first_token_ms,omitempty"`
}

// record is the request's full routing and cost record, without content.
func (s *summary) record() []byte {
	x, u := s.x, s.Usage
	status, _ := x.verdict()
	r := requestRecord{
		RequestID: x.ID, CreatedAt: x.started.UTC(), Status: s.outcome, HTTPStatus: status,
		Dialect: x.Request.Dialect, Stream: x.Request.Stream, Path: x.pathName(), RequestedModel: x.requested(),
		Provider: s.to.Provider, Model: s.to.Model, Subsystem: x.Hints.Subsystem,
		Attempts: len(x.attempts), AttemptLog: x.attempts, Degraded: x.degraded(s.to),
		InputTokens: u.TotalInput(), CachedTokens: u.Cached, CacheWriteTokens: u.CacheWrite + u.CacheWrite1h,
		OutputTokens: u.Output, ReasoningTokens: u.Reasoning, UsageEstimated: u.Estimated,
		PriceKnown: s.to.Prices.Known, ServiceTier: s.tier(), ProviderCostUSD: s.Cost, CostUSD: s.Charged, SpreadPct: x.spreadAt(s.to.Provider),
		Schema: x.schemaWord(&s.to), Verification: x.verification(), Escalation: x.escalationTold(), Cache: x.known.orMiss(), SavingsUSD: s.saved, Pipeline: x.pipelineLog(),
		LatencyMS: time.Since(x.started).Milliseconds(), FirstTokenMS: x.firstToken.Milliseconds(),
	}
	if x.fault != nil {
		r.Error = x.fault.CodeString()
	}
	b, err := json.Marshal(r)
	if err != nil {
		x.gw.Log.Error("a request's record cannot be written", "request", x.ID, "error", err)
	}
	return b
}

// tier is the tier of service that the answer was billed in; "" for the usual one.
func (s *summary) tier() string {
	if s.x.stored != nil || s.Cost == 0 {
		return ""
	}
	return s.x.terms(&s.to).BilledTier(&s.to, &s.Usage)
}
