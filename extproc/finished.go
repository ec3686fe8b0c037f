package extproc

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

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
	Attempts       []attemptRecord   `json:"attempt_log"`
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

// tell reports the exchange to those who watch. Lookups of models, balances and health are nobody's traffic.
func (x *exchange) tell(r *telemetry.Request) {
	if !x.gw.Finished.Watched() || x.operation == telemetry.Lookup && x.fault == nil {
		return
	}
	x.gw.Finished.Publish(x.finished(r))
}

func (x *exchange) finished(r *telemetry.Request) Finished {
	f := Finished{
		ID: x.ID, At: x.started.Add(r.Duration).UTC(), Account: x.Principal.Account, Operation: r.Operation.String(), Dialect: x.head.Dialect(), Subsystem: x.Hints.Subsystem,
		Attempts: append([]attemptRecord{}, x.attempts...), Status: r.Status, Code: r.Code, Outcome: outcomeFailed, Provider: policy.ProviderID(r.Provider),
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
		f.Outcome = outcomeLeft
	}
	if f.Provider != "" {
		f.Model = policy.ModelID(r.Model)
	}
	return f
}
