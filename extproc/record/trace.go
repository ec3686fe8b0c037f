// Package record is what happened to a request, its Trace, and what is made of that: the record that the ledger stores and
// GET /v1/requests/{id} shows, the line of those who watch the gateway, the metrics, the log, and the events. Each of these has a writer of its
// own here. None of it has content or credentials.
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
	Refused      = "refused"   // the operator's rules did not let the answer pass
	Failed       = "failed"    // the client got an error and nothing else
	Disconnected = "left"      // the client disconnected before the first content
)

// ClientClosed is the outcome of an attempt whose client disconnected before the first content.
const ClientClosed = "client_closed"

// Trace is what happened to one request so far: when, in which attempts, and how it ended. The state machine that serves the request fills
// it in; the writers read it. Not safe for concurrent use.
type Trace struct {
	Operation      telemetry.Operation
	Attempts       []Attempt
	AttemptStarted time.Time     // of the attempt under way, or of the last one
	AttemptEnded   time.Time     // of the attempt that is noted next, where it was over before; zero: it is over now
	FirstToken     time.Duration // from the start to the first content of a stream; 0 if none came
	Overhead       time.Duration // from the complete request to the first attempt, without waiting for another request's answer
	Cache          CacheStatus
	Similarity     float64 // of the question that CacheSemantic found

	Budget   *policy.BudgetDecision // nil: the request fits into its budgets, and its balance pays for it
	Fault    *fault.Fault           // that the client got in place of an answer
	Settled  *Settlement            // nil until the request is accounted for
	Unbilled *End                   // nil for what is accounted for, and until there is an answer
}

// Settlement is what a request cost in the end.
type Settlement struct {
	Outcome string
	By      policy.Resolution // who answered, else whose call came last, else who would have been called
	Usage   chat.Usage        // of all calls, or what a stored answer once took
	Cost    policy.Pico       // the providers'
	Charged policy.Micro
	Saved   policy.Micro // by all layers together
	Stored  bool         // no provider was called for it

	Savings []policy.Saving // by layer
}

// End is how a request ended that nobody pays the gateway for: its own answer, or one about a stored resource.
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
	Next     string            `json:"next,omitempty"`        // the next step: stop, repeat, amend, next_candidate, validation_retry, tool_round
	NextWhy  string            `json:"next_reason,omitempty"` // the reason of the next step
	Side     string            `json:"side,omitempty"`        // the layer that had the call made; "" for the request's own

	Began time.Time     `json:"-"` // zero where it is not known
	Took  time.Duration `json:"-"`
}

// Tried is how many attempts of the request itself are over, without those of calls that layers had made.
func (t *Trace) Tried() (n int) {
	for i := range t.Attempts {
		if t.Attempts[i].Side == "" {
			n++
		}
	}
	return n
}

// Last is the last attempt of the request itself that is over; nil for none.
func (t *Trace) Last() *Attempt {
	for i := len(t.Attempts) - 1; i >= 0; i-- {
		if t.Attempts[i].Side == "" {
			return &t.Attempts[i]
		}
	}
	return nil
}

// LastCalled is who served the request, as its metrics have it, else whose attempt came last; "" where nobody was called. The metrics do not
// count a failed request for any provider; their attempts have them.
func (t *Trace) LastCalled(r *telemetry.Request) (provider, model string) {
	if a := t.Last(); a != nil && r.Provider == "" {
		return string(a.Provider), string(a.Model)
	}
	return r.Provider, r.Model
}

// Aside marks the last attempt as one of a call that a layer had made.
func (t *Trace) Aside(layer string) { t.Attempts[len(t.Attempts)-1].Side = layer }

// Departs notes that the first attempt of a request goes out, which came at some time and waited for another request's answer.
func (t *Trace) Departs(arrived time.Time, waited time.Duration) {
	t.AttemptStarted = time.Now()
	t.Overhead = t.AttemptStarted.Sub(arrived) - waited
}

// Attempted notes an attempt that is over, and counts it; more tells that the request has candidates that come after it. The next one starts
// when it ended.
func (t *Trace) Attempted(m *telemetry.Metrics, to *policy.Resolution, o telemetry.Outcome, outcome, reason string, more bool) {
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

// Decided notes what is done after the last attempt, and why.
func (t *Trace) Decided(next, why string) {
	a := &t.Attempts[len(t.Attempts)-1]
	a.Next, a.NextWhy = next, why
}

// Verdict is the status, and the code of the fault, that the request counts as.
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

// Status and code of a request whose client disconnected before the answer, in records only.
const (
	StatusClientClosed = 499
	CodeClientClosed   = "client_closed"
)
