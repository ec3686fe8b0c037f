package upstream

import "net/http"

// Move is the next step after a failed attempt.
type Move uint8

// The moves.
const (
	Stop            Move = iota // the client gets the error
	Repeat                      // the same candidate is called once more
	Amend                       // the same candidate is called without what it refused
	Advance                     // the next candidate is called
	ValidationRetry             // the same candidate is called again with a correction of its answer
	ToolRound                   // the same candidate is called with the results of calls that the gateway answered
)

// String returns the move as in request records.
func (m Move) String() string {
	switch m {
	case Stop:
		return "stop"
	case Repeat:
		return "repeat"
	case Amend:
		return "amend"
	case Advance:
		return "next_candidate"
	case ValidationRetry:
		return "validation_retry"
	case ToolRound:
		return "tool_round"
	}
	return ""
}

// State is the input of the decision after a failed attempt.
type State struct {
	Failure    *Failure
	Failures   int  // attempts that failed, this one included
	MaxRetries int  // attempts beyond the first that a request may have
	Candidates int  // of the request
	Left       int  // candidates after the one that failed
	Sent       bool // part of the answer was sent to the client
	Over       bool // the request's time limit has expired, or its client has disconnected
	Amendable  bool // the candidate can be called without what it refused
	FreshKey   bool // the provider refused its key and has an untried one
	Once       bool // each candidate is called once, unless retried without what it refused
}

// Decision is the next step, and its reason as shown in the request's record.
type Decision struct {
	Move Move
	Why  string
}

// Next decides what follows a failed attempt. It depends on s alone. Only attempts that Envoy makes by itself are decided elsewhere, by a retry
// policy from the same statuses (policy.Retriable).
func Next(s *State) Decision {
	switch {
	case s.Sent:
		return Decision{Stop, "the client has a part of the answer"}
	case s.Over:
		return Decision{Stop, "the request's time is over, or its client has disconnected"}
	case !s.Amendable && !s.Failure.Retriable():
		return Decision{Stop, "the provider refused the request itself"}
	case s.Failures > s.MaxRetries:
		return Decision{Stop, "the request had all its attempts (routing.max_retries)"}
	case s.Amendable:
		return Decision{Amend, "without what the provider refused"}
	case s.repeats():
		return Decision{Repeat, s.repeatReason()}
	case s.Left == 0:
		return Decision{Stop, "no other candidate is left"}
	}
	return Decision{Advance, "another candidate may do better"}
}

// repeats reports whether the failed provider is called once more: with another key; the only candidate, unless it is rate limited or would fail in
// the same way; the first of several after a failed connection.
func (s *State) repeats() bool {
	f, first := s.Failure, s.Failures == 1
	switch {
	case s.Once:
		return false
	case s.FreshKey:
		return true
	case s.Candidates == 1:
		return first && f.Status != http.StatusTooManyRequests && !f.Lasting()
	}
	return first && (f.Kind == NoConnection || f.Kind == Reset)
}

func (s *State) repeatReason() string {
	switch {
	case s.FreshKey:
		return "with another of the provider's keys"
	case s.Candidates == 1:
		return "the only candidate, and the failure may pass"
	}
	return "the connection failed, and nothing was sent"
}
