package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcome is how an attempt at a provider ended.
type Outcome uint8

// The outcomes.
const (
	Served      Outcome = iota // a complete answer
	Canceled                   // the client disconnected
	Refused                    // no connection
	Reset                      // the connection broke before content
	TimedOut                   // no answer, or no first token, in time
	NoAnswer                   // no answer, for an unknown reason
	RateLimited                // status 429
	Rejected                   // another 4xx status
	Failed                     // a 5xx status
	ErrorEvent                 // an error inside a 200
	Truncated                  // the answer ended before its end
	outcomes
)

var outcomeNames = [outcomes]string{
	Served: "served", Canceled: "canceled", Refused: "refused", Reset: "reset", TimedOut: "timed_out", NoAnswer: "no_answer",
	RateLimited: "rate_limited", Rejected: "rejected", Failed: "failed", ErrorEvent: "error_event", Truncated: "truncated",
}

// String returns the outcome's name in metrics and logs.
func (o Outcome) String() string {
	if o < outcomes {
		return outcomeNames[o]
	}
	return Other
}

// Attempt is a finished attempt.
type Attempt struct {
	Operation  Operation
	Provider   string
	Model      string // id in the catalog
	Outcome    Outcome
	Duration   time.Duration
	FailedOver bool // another candidate followed
}

type call struct {
	served
	outcome Outcome
}

// ended are the metrics of attempts with one outcome.
type ended struct {
	duration prometheus.Observer
	attempts prometheus.Counter
}

// AttemptDone counts a finished attempt.
func (m *Metrics) AttemptDone(a *Attempt) {
	k := call{served{a.Operation, a.Provider, m.model(a.Model)}, min(a.Outcome, outcomes)}
	e, ok := m.calls.get(k)
	if !ok {
		e = m.newEnded(k)
	}
	e.duration.Observe(a.Duration.Seconds())
	e.attempts.Inc()
	if a.FailedOver {
		m.failovers.WithLabelValues(k.provider, k.outcome.String()).Inc()
	}
}

func (m *Metrics) newEnded(k call) ended {
	if m.calls.len() >= maxSeries {
		k.model = Other
	}
	outcome, kind := k.outcome.String(), k.outcome.String()
	if k.outcome == Served {
		kind = "" // not an error
	}
	return m.calls.put(k, ended{
		duration: m.client.call.WithLabelValues(k.operation.String(), k.provider, k.model, kind),
		attempts: m.attempts.WithLabelValues(k.provider, outcome),
	})
}
