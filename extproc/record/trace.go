// Package record holds what happened to a request, its Trace, and the writers of its sinks: the record that the ledger stores and GET
// /v1/requests/{id} returns, the event stream, the metrics, the log, and the events. None of it has content or credentials.
package record

import (
	"net/http"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// How a request ended, in its record and in the metrics.
const (
	OK           = "ok"
	Cut          = "cut"       // the provider's answer was truncated after the first content
	Cancelled    = "cancelled" // the client disconnected after the first content
	Invalid      = "invalid"   // no answer followed the requested schema
	Refused      = "refused"   // the operator's rules rejected the answer
	Failed       = "failed"    // the client got only an error
	Disconnected = "left"      // the client disconnected before the first content
)

// ClientClosed is the outcome of an attempt whose client disconnected before the first content.
const ClientClosed = "client_closed"

// Trace is what happened to one request so far: times, attempts, and outcome. The state machine that serves the request fills it in; the writers read
// it. Not safe for concurrent use.
type Trace struct {
	Operation      telemetry.Operation
	Attempts       []Attempt
	AttemptStarted time.Time     // of the current attempt, or the last one
	AttemptEnded   time.Time     // of the next recorded attempt, if it ended earlier; zero: it ends now
	FirstToken     time.Duration // from the start to the first content of a stream; 0 if there was none
	Overhead       time.Duration // from the complete request to the first attempt, excluding the wait for another request's answer
	Cache          CacheStatus
	Similarity     float64 // to the question of a CacheSemantic answer

	Hedge    *Hedge                 // nil: no second candidate was to be called
	Budget   *policy.BudgetDecision // nil: budgets and balance cover the request
	Fault    *fault.Fault           // the client's error
	Settled  *Settlement            // nil until settled
	Unbilled *End                   // outcome without a settlement; nil if there is one, and until there is an answer
}

// Settlement is the final cost of a request.
type Settlement struct {
	Outcome string
	By      policy.Resolution // the candidate that answered, else of the last call, else the first of the order
	Usage   chat.Usage        // of all calls, or what a stored answer used
	Cost    policy.Pico       // provider cost
	Charged policy.Micro
	Saved   policy.Micro // by all layers together
	Stored  bool         // served without a provider

	Savings []policy.Saving // by layer
}

// End is the outcome of a request without a charge: the gateway's own answer, or one about a stored resource.
type End struct {
	Provider policy.ProviderID // "" for the gateway itself
	Outcome  string
	Status   int    // HTTP, as the client got it
	Code     string // of an error; "" for an answer
}

// Attempt is one attempt in a request's record.
type Attempt struct {
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
	Outcome  string            `json:"outcome"`               // ok, or why it failed
	Reason   string            `json:"reason,omitempty"`      // readable text of a failure
	Next     string            `json:"next,omitempty"`        // the next step: stop, repeat, amend, next_candidate, validation_retry, tool_round, hedge
	NextWhy  string            `json:"next_reason,omitempty"` // the reason of the next step
	Side     string            `json:"side,omitempty"`        // the layer that made a side call, or "hedge"; "" for the request's own

	Began time.Time     `json:"-"` // zero if unknown
	Took  time.Duration `json:"-"`
}

// AttemptCount returns the number of finished attempts, side calls excluded.
func (t *Trace) AttemptCount() (n int) {
	for i := range t.Attempts {
		if t.Attempts[i].Side == "" {
			n++
		}
	}
	return n
}

// Last returns the last finished attempt, side calls excluded; nil for none.
func (t *Trace) Last() *Attempt {
	for i := len(t.Attempts) - 1; i >= 0; i-- {
		if t.Attempts[i].Side == "" {
			return &t.Attempts[i]
		}
	}
	return nil
}

// LastCalled returns who served the request, as in its metrics, else whose attempt came last; "" if no provider was called. The metrics count a
// failed request for no provider; its attempts are counted.
func (t *Trace) LastCalled(r *telemetry.Request) (provider, model string) {
	if a := t.Last(); a != nil && r.Provider == "" {
		return string(a.Provider), string(a.Model)
	}
	return r.Provider, r.Model
}

// MarkSide marks the last attempt as a layer's side call.
func (t *Trace) MarkSide(layer string) { t.Attempts[len(t.Attempts)-1].Side = layer }

// StartFirstAttempt records that the first attempt is sent, of a request that arrived at arrived and waited for another request's answer.
func (t *Trace) StartFirstAttempt(arrived time.Time, waited time.Duration) {
	t.AttemptStarted = time.Now()
	t.Overhead = t.AttemptStarted.Sub(arrived) - waited
}

// AddAttempt records and counts a finished attempt; more reports whether candidates are left. The next attempt starts when it ended.
func (t *Trace) AddAttempt(m *telemetry.Metrics, to *policy.Resolution, o telemetry.Outcome, outcome, reason string, more bool) {
	now := time.Now()
	if !t.AttemptEnded.IsZero() {
		now, t.AttemptEnded = t.AttemptEnded, time.Time{}
	}
	took := now.Sub(t.AttemptStarted)
	m.AttemptDone(&telemetry.Attempt{
		Operation: t.Operation, Provider: string(to.Provider), Model: string(to.Model), Outcome: o, Duration: took, FailedOver: o != telemetry.Served && more,
	})
	t.Attempts = append(t.Attempts, Attempt{Provider: to.Provider, Model: to.Model, Outcome: outcome, Reason: reason, Began: t.AttemptStarted, Took: took})
	t.AttemptStarted = now
}

// SetDecision records the step after the last attempt, and its reason.
func (t *Trace) SetDecision(next, reason string) {
	a := &t.Attempts[len(t.Attempts)-1]
	a.Next, a.NextWhy = next, reason
}

// Verdict returns the status and the fault code that the request counts as.
func (t *Trace) Verdict() (status int, code string) {
	switch {
	case t.Fault != nil:
		return t.Fault.HTTPStatus(), string(t.Fault.Kind)
	case t.Unbilled != nil:
		return t.Unbilled.Status, t.Unbilled.Code
	case t.Settled != nil && t.Settled.Outcome != Disconnected:
		return http.StatusOK, ""
	}
	return StatusClientClosed, CodeClientClosed
}

// Status and code of a request whose client disconnected before the answer; in records only.
const (
	StatusClientClosed = 499
	CodeClientClosed   = "client_closed"
)
