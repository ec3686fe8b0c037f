package upstream_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
)

func TestASequenceGoesWhereNextDecides(t *testing.T) {
	failure := func(status int) upstream.State {
		return upstream.State{Failure: &upstream.Failure{Kind: upstream.ByStatus, Status: status}}
	}
	amendable := upstream.State{Failure: &upstream.Failure{Kind: upstream.ByStatus, Status: 400}, Amendable: true}
	sent := failure(500)
	sent.Sent = true
	for _, row := range []struct {
		about    string
		seq      upstream.Sequence
		states   []upstream.State // of the attempts, one after the other
		called   []string         // the model of each attempt
		failures int
	}{
		{"one after the other", upstream.Sequence{MaxRetries: 5}, []upstream.State{failure(500), failure(500), failure(500)}, []string{"a", "b", "c"}, 3},
		{"as often as the request may", upstream.Sequence{MaxRetries: 1}, []upstream.State{failure(500), failure(500)}, []string{"a", "b"}, 2},
		{"attempts before it count", upstream.Sequence{MaxRetries: 2, Calls: 2}, []upstream.State{failure(500)}, []string{"a"}, 1},
		{"amended in its place, and not a failure yet", upstream.Sequence{MaxRetries: 5}, []upstream.State{amendable, failure(400)}, []string{"a", "amended"}, 1},
		{"nothing after a refusal", upstream.Sequence{MaxRetries: 5}, []upstream.State{failure(400)}, []string{"a"}, 1},
		{"nothing after content", upstream.Sequence{MaxRetries: 5}, []upstream.State{sent}, []string{"a"}, 1},
	} {
		seq := row.seq
		seq.Candidates = []policy.Resolution{{Model: "a"}, {Model: "b"}, {Model: "c"}}
		var called []string
		for to := seq.Candidate(); to != nil && len(called) < 10; to = seq.Candidate() {
			called = append(called, string(to.Model))
			seq.Failed(row.states[min(len(called), len(row.states))-1], policy.Resolution{Model: "amended"})
		}
		if !slices.Equal(called, row.called) || len(seq.Failures) != row.failures {
			t.Errorf("%s: %v, %d failures", row.about, called, len(seq.Failures))
		}
	}
}
