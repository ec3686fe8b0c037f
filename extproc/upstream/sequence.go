package upstream

import (
	"slices"

	"bardo.money/gateway/policy"
)

// Sequence iterates over a request's candidates, one attempt after the other, as Next decides. Not safe for concurrent use.
type Sequence struct {
	Candidates []policy.Resolution // a changed candidate is replaced in place
	MaxRetries int                 // maximum number of attempts beyond the first
	Calls      int                 // finished attempts, including those before the sequence and rejected answers
	Once       bool                // each candidate is called once, unless retried without what it refused
	Failures   []*Failure          // of the failed attempts, except those whose candidate was retried without what it refused

	at      int
	stopped bool
}

// Candidate returns the next candidate to call; nil when no attempt is left.
func (s *Sequence) Candidate() *policy.Resolution {
	if s.stopped || s.at >= len(s.Candidates) || s.Calls > s.MaxRetries {
		return nil
	}
	return &s.Candidates[s.at]
}

// Hedged records that the candidate at index j was called beside the current one, and that one of the two calls ended without an answer: for a failure,
// or nil for a call that was cancelled. replaced: it was the current candidate's, whose place the other takes; else j leaves the sequence. The
// candidates are copied.
func (s *Sequence) Hedged(j int, replaced bool, f *Failure) {
	s.Calls++
	s.Candidates = slices.Clone(s.Candidates)
	if replaced {
		s.Candidates[s.at] = s.Candidates[j]
	}
	s.Candidates = slices.Delete(s.Candidates, j, j+1)
	if f != nil {
		s.Failures = append(s.Failures, f)
	}
}

// Failed decides what follows a failed attempt of the candidate, and advances. again is the candidate without what it refused, if st.Amendable. The
// sequence fills in the fields of st that it knows.
func (s *Sequence) Failed(st State, again policy.Resolution) Decision {
	s.Calls++
	st.Failures, st.MaxRetries, st.Once = s.Calls, s.MaxRetries, s.Once
	st.Candidates, st.Left = len(s.Candidates), len(s.Candidates)-1-s.at
	d := Next(&st)
	if d.Move == Amend {
		s.Candidates[s.at] = again
		return d
	}
	s.Failures = append(s.Failures, st.Failure)
	switch d.Move { //nolint:exhaustive // the same candidate is called again
	case Advance:
		s.at++
	case Stop:
		s.stopped = true
	}
	return d
}
