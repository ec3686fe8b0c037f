package upstream

import (
	"errors"
	"testing"

	"bardo.money/gateway/extproc/chat"
)

func TestWhatIsDoneAfterAFailedAttempt(t *testing.T) {
	status := func(n int) *Failure { return Stated("p", &chat.ProviderError{Status: n}) }
	broken := &Failure{Kind: Reset}
	of := func(f *Failure, candidates, left int) State {
		return State{Failure: f, Failures: 1, MaxRetries: 3, Candidates: candidates, Left: left}
	}
	with := func(s State, change func(*State)) State {
		change(&s)
		return s
	}
	for name, row := range map[string]struct {
		state State
		want  Move
	}{
		"the first of several answered 503":          {of(status(503), 3, 2), Advance},
		"the last of several answered 503":           {of(status(503), 3, 0), Stop},
		"the first of several broke off":             {of(broken, 3, 2), Repeat},
		"it broke off again":                         {with(of(broken, 3, 2), func(s *State) { s.Failures = 2 }), Advance},
		"a connection was not made":                  {of(&Failure{Kind: NoConnection}, 3, 2), Repeat},
		"the first of several was silent":            {of(&Failure{Kind: TimedOut}, 3, 2), Advance},
		"the only one answered 503":                  {of(status(503), 1, 0), Repeat},
		"the only one reached its limit":             {of(status(429), 1, 0), Stop},
		"the only one refused its key":               {of(status(401), 1, 0), Stop},
		"the only one has another key":               {with(of(status(401), 1, 0), func(s *State) { s.FreshKey = true }), Repeat},
		"one of several has another key":             {with(of(status(429), 3, 2), func(s *State) { s.FreshKey = true }), Repeat},
		"the only one's answer is too long":          {of(&Failure{Kind: Reset, Cause: ErrTooLong}, 1, 0), Stop},
		"an answer was discarded":                    {of(&Failure{Kind: Retained}, 2, 1), Advance},
		"the only one's answer was discarded":        {of(&Failure{Kind: Retained}, 1, 0), Stop},
		"the request is at fault":                    {of(status(400), 3, 2), Stop},
		"the model is not there":                     {of(status(404), 3, 2), Stop},
		"what was refused can be left out":           {with(of(status(400), 3, 2), func(s *State) { s.Amendable = true }), Amend},
		"the same, after all attempts":               {with(of(status(400), 3, 2), func(s *State) { s.Amendable, s.Failures = true, 4 }), Stop},
		"all attempts were made":                     {with(of(status(503), 9, 5), func(s *State) { s.Failures = 4 }), Stop},
		"none but the first may be made":             {with(of(status(503), 9, 8), func(s *State) { s.MaxRetries = 0 }), Stop},
		"the client has a part of the answer":        {with(of(broken, 3, 2), func(s *State) { s.Sent = true }), Stop},
		"the time is over":                           {with(of(status(503), 3, 2), func(s *State) { s.Over = true }), Stop},
		"each is called once, and the first is over": {with(of(broken, 3, 2), func(s *State) { s.Once = true }), Advance},
		"each is called once, and there is one":      {with(of(status(503), 1, 0), func(s *State) { s.Once = true }), Stop},
		"it could not be written for this provider":  {of(&Failure{Kind: NotEncoded}, 2, 1), Advance},
	} {
		t.Run(name, func(t *testing.T) {
			if d := Next(&row.state); d.Move != row.want || d.Why == "" || d.Move.String() == "" {
				t.Errorf("%s: %q, want %s", d.Move, d.Why, row.want)
			}
		})
	}
}

func TestReasonsHaveNoWordsOfTheProvider(t *testing.T) {
	for want, f := range map[string]*Failure{
		"the provider answered 503":                                  Stated("p", &chat.ProviderError{Status: 503, Message: "secret words"}),
		"the provider answered 429 rate_limit_error":                 Stated("p", &chat.ProviderError{Status: 429, Type: "rate_limit_error", Message: "secret words"}),
		"the provider answered 500":                                  Stated("p", &chat.ProviderError{Status: 500, Type: "secret words, quoted"}),
		"no connection: connection refused":                          Local("p", 503, "upstream_reset_before_response_started{connection_failure|Connection_refused}"),
		"no answer in time":                                          {Kind: TimedOut},
		"silence":                                                    {Kind: TimedOut, Cause: errors.New("silence")},
		"the connection broke, or the answer had no end":             {Kind: Reset, Cause: errors.New("secret words")},
		"no answer came":                                             {Kind: NoAnswer},
		"the answer is larger than the gateway holds for one client": {Kind: Reset, Cause: ErrTooLong},
		"the provider did not confirm that it retains nothing: a header is missing": {Kind: Retained, Cause: errors.New("a header is missing")},
		"the answer does not follow its schema":                                     {Kind: WrongForm},
		"the request cannot be written in the provider's format":                    {Kind: NotEncoded, Cause: errors.New("secret words")},
	} {
		if got := f.Reason(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
