package upstream

import "net/http"

// Move is what is done when an attempt has failed.
type Move uint8

// The moves.
const (
	Stop            Move = iota // the client is told
	Repeat                      // the same candidate is called once more
	Amend                       // the same candidate is called without what it refused
	Advance                     // the next candidate is called
	ValidationRetry             // the same candidate is told what is wrong with its answer
	ToolRound                   // the same candidate gets the results of calls that the gateway answered
)

// String is the move as request records have it.
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

// State is what decides on the next attempt, when one has failed.
type State struct {
	Failure    *Failure
	Failures   int  // attempts that failed, this one included
	MaxRetries int  // attempts beyond the first that a request may have
	Candidates int  // of the request
	Left       int  // candidates behind the one that failed
	Sent       bool // the client has a part of the answer
	Over       bool // the request's time is over, or its client has disconnected
	Amendable  bool // it is known what the candidate has to be asked without
	FreshKey   bool // the provider refused its key, and has another one that was not tried
	Once       bool // each candidate is called once, unless it is amended
}

// Decision is what is done next, and why, in words that a request's record shows.
type Decision struct {
	Move Move
	Why  string
}

// Next decides what is done when an attempt has failed. It is the only place that does, but for the attempts that Envoy makes by itself, whose
// retry policy is made from the same statuses (policy.Retriable). It depends on s alone.
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
		return Decision{Repeat, s.whyRepeat()}
	case s.Left == 0:
		return Decision{Stop, "no other candidate is left"}
	}
	return Decision{Advance, "another candidate may do better"}
}

// repeats reports whether the provider that failed is called once more: with another key; the only candidate, unless it reached its limit or
// would answer the same again; the first of several whose connection failed.
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

func (s *State) whyRepeat() string {
	switch {
	case s.FreshKey:
		return "with another of the provider's keys"
	case s.Candidates == 1:
		return "the only candidate, and the failure may pass"
	}
	return "the connection failed, and nothing was sent"
}
