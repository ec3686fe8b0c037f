package ledger

import (
	"errors"
	"testing"
	"time"
)

// TestTheLastFeedbackCounts, once per request, and what it replaces is returned.
func TestTheLastFeedbackCounts(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	first := Feedback{RequestID: "r", Account: "k", At: monday, Score: 250_000, Reason: "slow", Task: "risk_check", Regime: "bull"}
	if before, ok, err := l.Rate(t.Context(), first); err != nil || ok || before != (Feedback{}) {
		t.Fatalf("%+v %v %v", before, ok, err)
	}
	second := first
	second.Score, second.Reason, second.At = PerfectScore, "", monday.Add(time.Hour)
	for i, want := range []int64{first.Score, second.Score} { // the second time, nothing changes
		before, ok, err := l.Rate(t.Context(), second)
		if err != nil || !ok || before.Score != want {
			t.Errorf("%d: %+v %v %v", i, before, ok, err)
		}
	}
	if _, _, err := l.Rate(t.Context(), Feedback{RequestID: "r", Account: "other", Score: 1}); !errors.Is(err, ErrReused) {
		t.Errorf("of another account: %v", err)
	}
	for _, score := range []int64{-1, PerfectScore + 1} {
		if _, _, err := l.Rate(t.Context(), Feedback{RequestID: "r2", Account: "k", Score: score}); err == nil {
			t.Errorf("a score of %d", score)
		}
	}
	if _, _, err := l.Rate(t.Context(), Feedback{RequestID: "r3", Account: "k", At: monday, Score: 0, Task: "risk_check", Regime: "bull"}); err != nil {
		t.Fatal(err)
	}
	other := tool(t, path)
	have, ok, err := other.FeedbackOn(t.Context(), "r")
	have.At = have.At.UTC()
	if err != nil || !ok || have != second {
		t.Errorf("%+v %v %v, want %+v", have, ok, err, second)
	}
	if _, ok, err := other.FeedbackOn(t.Context(), "r2"); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
	rows, err := other.FeedbackByTask(t.Context(), "k")
	if err != nil || len(rows) != 1 || rows[0] != (FeedbackRow{Task: "risk_check", Regime: "bull", Answers: 2, Score: 0.5}) {
		t.Errorf("%+v %v", rows, err)
	}
	if rows, err := other.FeedbackByTask(t.Context(), "nobody"); err != nil || len(rows) != 0 {
		t.Errorf("%+v %v", rows, err)
	}
}

// TestOldFeedbackIsPruned with the requests that it is about.
func TestOldFeedbackIsPruned(t *testing.T) {
	now := monday
	l := openWith(t, storePath(t), Options{Gateway: true, Retention: time.Hour, Now: func() time.Time { return now }})
	for id, at := range map[string]time.Time{"old": monday.Add(-2 * time.Hour), "new": monday} {
		if _, _, err := l.Rate(t.Context(), Feedback{RequestID: id, At: at, Score: 1}); err != nil {
			t.Fatal(err)
		}
	}
	l.prune()
	if _, ok, _ := l.FeedbackOn(t.Context(), "old"); ok {
		t.Error("the old one is there")
	}
	if _, ok, _ := l.FeedbackOn(t.Context(), "new"); !ok {
		t.Error("the new one is not")
	}
}
