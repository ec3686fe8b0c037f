package extproc

import (
	"encoding/json"
	"time"

	"bardo.money/gateway/extproc/record"
)

// record is the request's full routing and cost record, without content.
func (s *summary) record() []byte {
	x, u := s.x, s.Usage
	status, _ := x.verdict()
	r := record.Request{
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
