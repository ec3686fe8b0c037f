package upstream

import "bardo.money/gateway/policy"

// Sequence goes through the candidates of a request, one attempt after the other, as Next decides. Not safe for concurrent use.
type Sequence struct {
	Candidates []policy.Resolution // an amended candidate is replaced in place
	MaxRetries int                 // attempts beyond the first that the request may have
	Calls      int                 // attempts that are over, those before the sequence and answers that were not good enough included
	Once       bool                // each candidate is called once, unless it is amended
	Failures   []*Failure          // of the attempts that failed, but for those whose candidate was amended then

	at      int
	stopped bool
}

// Candidate is the one to call now; nil when no attempt is to be made any more.
func (s *Sequence) Candidate() *policy.Resolution {
	if s.stopped || s.at >= len(s.Candidates) || s.Calls > s.MaxRetries {
		return nil
	}
	return &s.Candidates[s.at]
}

// Failed decides what is done after a failed attempt of the candidate, and goes there. again is the candidate without what it refused, if
// st.Amendable. What a sequence knows of st is filled in here.
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
