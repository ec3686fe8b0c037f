package upstream_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
)

// TestOfTwoConcurrentCallsOneStaysInTheSequence: the one that is the request's, whose failure is decided next.
func TestOfTwoConcurrentCallsOneStaysInTheSequence(t *testing.T) {
	order := []policy.Resolution{{Model: "a"}, {Model: "b"}, {Model: "c"}, {Model: "d"}}
	failed := &upstream.Failure{Kind: upstream.ByStatus, Status: 500}
	for _, row := range []struct {
		about    string
		at       int
		replaced bool
		f        *upstream.Failure
		want     []policy.ModelID
	}{
		{"the first one won", 1, false, nil, []policy.ModelID{"a", "c", "d"}},
		{"the other one won", 1, true, nil, []policy.ModelID{"b", "c", "d"}},
		{"the other one, not the next, failed first", 2, false, failed, []policy.ModelID{"a", "b", "d"}},
		{"the first one failed first", 2, true, failed, []policy.ModelID{"c", "b", "d"}},
	} {
		seq := upstream.Sequence{Candidates: order, MaxRetries: 5}
		seq.Hedged(row.at, row.replaced, row.f)
		var called []policy.ModelID
		for to := seq.Candidate(); to != nil; to = seq.Candidate() {
			called = append(called, to.Model)
			seq.Failed(upstream.State{Failure: failed}, *to)
		}
		want := len(row.want)
		if row.f != nil {
			want++
		}
		if !slices.Equal(called, row.want) || seq.Calls != 4 || len(seq.Failures) != want || order[0].Model != "a" || len(order) != 4 || order[3].Model != "d" {
			t.Errorf("%s: %v, %+v", row.about, called, seq)
		}
	}
}

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
