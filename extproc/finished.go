package extproc

import (
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// tell reports the exchange to those who watch. Lookups of models, balances and health are nobody's traffic.
func (x *exchange) tell(r *telemetry.Request) {
	if !x.gw.Finished.Watched() || x.operation == telemetry.Lookup && x.fault == nil {
		return
	}
	x.gw.Finished.Publish(x.finished(r))
}

func (x *exchange) finished(r *telemetry.Request) record.Finished {
	f := record.Finished{
		ID: x.ID, At: x.started.Add(r.Duration).UTC(), Account: x.Principal.Account, Operation: r.Operation.String(), Dialect: x.head.Dialect(), Subsystem: x.Hints.Subsystem,
		Attempts: append([]record.Attempt{}, x.attempts...), Status: r.Status, Code: r.Code, Outcome: record.Failed, Provider: policy.ProviderID(r.Provider),
		InputTokens: r.Tokens.Input + r.Tokens.Cached + r.Tokens.CacheWrite, CachedTokens: r.Tokens.Cached, OutputTokens: r.Tokens.Output,
		Cost: policy.Micro(r.Charged), Cache: x.known.orMiss(), LatencyMS: r.Duration.Milliseconds(), FirstTokenMS: r.FirstToken.Milliseconds(),
	}
	if x.Request != nil {
		f.Dialect, f.Stream, f.RequestedModel = x.Request.Dialect, x.Request.Stream, fault.Clip(x.requested())
	}
	switch {
	case x.settled != nil:
		f.Outcome, f.Savings = x.settled.outcome, x.settled.saved
	case x.unmetered != nil:
		f.Outcome = x.unmetered.outcome
	case x.fault == nil:
		f.Outcome = record.Disconnected
	}
	if f.Provider != "" {
		f.Model = policy.ModelID(r.Model)
	}
	return f
}
