package ledger

import (
	"errors"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/seal"
)

// TestTheLastFeedbackCounts, once per request, and the replaced one is returned.
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

// withSealer opens a store whose texts are encrypted with a secret.
func withSealer(t *testing.T, path, secret string, gateway bool) *Ledger {
	t.Helper()
	return openWith(t, path, Options{Gateway: gateway, IdleReturn: time.Hour, Sealer: func() (seal.Sealer, error) { return seal.New("feedback", secret) }})
}

// storedReason is a reason's stored form.
func storedReason(t *testing.T, path, request string) (reason string) {
	t.Helper()
	db := raw(t, path)
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(t.Context(), `SELECT reason FROM feedback WHERE request = '`+request+`'`).Scan(&reason); err != nil {
		t.Fatal(err)
	}
	return reason
}

// TestReasonsAreStoredEncrypted: each is bound to its request, and readable only with its key.
func TestReasonsAreStoredEncrypted(t *testing.T) {
	path := storePath(t)
	l := withSealer(t, path, "secret", true)
	for request, reason := range map[string]string{"r1": "it missed the second position", "r2": "enc:is what it begins with", "r3": ""} {
		if _, _, err := l.Rate(t.Context(), Feedback{RequestID: request, Account: "k", At: monday, Reason: reason}); err != nil {
			t.Fatal(err)
		}
		stored := storedReason(t, path, request)
		if strings.Contains(stored, "missed") || strings.Contains(stored, "begins") || (stored == "") != (reason == "") {
			t.Errorf("%s is stored as %q", request, stored)
		}
		if f, ok, err := l.FeedbackOn(t.Context(), request); err != nil || !ok || f.Reason != reason {
			t.Errorf("%s: %q %v %v, want %q", request, f.Reason, ok, err, reason)
		}
	}
	if before, ok, err := l.Rate(t.Context(), Feedback{RequestID: "r1", Account: "k", At: monday, Reason: "other"}); err != nil || !ok || before.Reason != "it missed the second position" {
		t.Errorf("before it was %+v %v %v", before, ok, err)
	}
	change(t, path, `UPDATE feedback SET reason = (SELECT reason FROM feedback WHERE request = 'r2') WHERE request = 'r1'`)
	if f, ok, err := l.FeedbackOn(t.Context(), "r1"); err != nil || !ok || f.Reason != "" {
		t.Errorf("another request's reason is %q %v %v", f.Reason, ok, err)
	}
	if f, ok, err := withSealer(t, path, "another", false).FeedbackOn(t.Context(), "r2"); err != nil || !ok || f.Reason != "" {
		t.Errorf("with another key it is %q %v %v", f.Reason, ok, err)
	}
}

// TestReasonsOfEarlierVersionsAreEncrypted by the first gateway that has a key; until then they are readable.
func TestReasonsOfEarlierVersionsAreEncrypted(t *testing.T) {
	path := missingStore(t)
	l := gateway(t, path)
	for _, request := range []string{"r1", "r2"} {
		if _, _, err := l.Rate(t.Context(), Feedback{RequestID: request, Account: "k", At: monday}); err != nil {
			t.Fatal(err)
		}
	}
	change(t, path, `UPDATE feedback SET reason = 'in clear' WHERE request = 'r1'`)
	l.sealReasons() // without a key
	if got := storedReason(t, path, "r1"); got != "in clear" {
		t.Errorf("without a key it is stored as %q", got)
	}
	later := withSealer(t, path, "secret", true)
	polltest.Until(t, "the reason is encrypted", func() bool { return !strings.Contains(storedReason(t, path, "r1"), "clear") })
	for request, want := range map[string]string{"r1": "in clear", "r2": ""} {
		if f, ok, err := later.FeedbackOn(t.Context(), request); err != nil || !ok || f.Reason != want {
			t.Errorf("%s: %q %v %v", request, f.Reason, ok, err)
		}
	}
}
