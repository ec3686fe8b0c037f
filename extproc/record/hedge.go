package record

import (
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
)

// What became of the second candidate of a request whose first one was slow (routing.hedging), in its record and in the metrics.
const (
	HedgeWon     = "won"      // it answered
	HedgeLost    = "lost"     // the first candidate answered after all, or it failed
	HedgeFailed  = "failed"   // neither of the two gave content
	HedgeNoShare = "no_share" // it was not called: enough requests had two calls already
	HedgeNoMoney = "no_money" // it was not called: balance, limits or budgets do not cover two calls
)

// HedgeCancelled is the outcome of the attempt that was cancelled because the other one gave content first. It is billed like an attempt whose client
// disconnects.
const HedgeCancelled = "hedge_cancelled"

// NextHedge is the step after a failed attempt beside which another was in progress.
const NextHedge = "hedge"

// Hedge is what became of the second candidate.
type Hedge struct {
	Outcome  string            `json:"outcome"`
	Provider policy.ProviderID `json:"provider"` // the second candidate
	Model    policy.ModelID    `json:"model"`
}

// EventHedged is the event of a second candidate.
var EventHedged = event.Declare[Hedged]("inference:hedged", "The first candidate of a request was slow: what became of the second.")

// Hedged is its content.
type Hedged struct {
	RequestID string            `json:"request_id"`
	Subsystem string            `json:"subsystem"`
	Outcome   string            `json:"outcome"`
	Slow      policy.ProviderID `json:"slow_provider"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
	AfterMS   int64             `json:"after_ms"` // since the request began
}
