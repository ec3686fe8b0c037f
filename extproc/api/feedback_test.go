package api

import (
	"errors"
	"strings"
	"testing"

	"bardo.money/gateway/internal/fault"
)

func TestFeedbackIsReadStrictly(t *testing.T) {
	for body, want := range map[string]int64{
		`{"score":0}`: 0, `{"score":1}`: 1_000_000, `{"score":0.25,"reason":"slow"}`: 250_000, `{"reason":null, "score":1e-3}`: 1000, `{"score":0.9999999}`: 1_000_000,
	} {
		if f, err := parseFeedback([]byte(body)); err != nil || f.Score != want {
			t.Errorf("%s: %+v %v", body, f, err)
		}
	}
	for body, names := range map[string]string{
		``: "JSON", `[]`: "expected", `{}`: "score", `{"score":1.1}`: "score", `{"score":-0.1}`: "score", `{"score":"1"}`: "score", `{"score":null}`: "score", `{"score":1e999}`: "score",
		`{"score":true}`: "score", `{"score":1,"score":0}`: "score", `{"Score":1}`: "Score", `{"score":1,"reasons":""}`: "reasons", `{"score":1,"reason":{}}`: "reason",
		`{"score":1,"reason":"` + strings.Repeat("a", 2001) + `"}`: "reason", `{"score":1} x`: "", `{"score":0x1p-2}`: "",
	} {
		_, err := parseFeedback([]byte(body))
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != fault.InvalidRequest || !strings.Contains(f.Error(), names) {
			t.Errorf("%.40s: %v", body, err)
		}
	}
	if _, err := parseFeedback([]byte(strings.Repeat(" ", MaxFeedbackBody+1))); fault.From(err).Kind != fault.TooLarge {
		t.Errorf("a long body: %v", err)
	}
}

func FuzzFeedback(f *testing.F) {
	f.Add(`{"score":0.5,"reason":"x"}`)
	f.Fuzz(func(t *testing.T, body string) {
		r, err := parseFeedback([]byte(body))
		if err == nil && (r.Score < 0 || r.Score > 1_000_000 || len(r.Reason) > maxReason) {
			t.Errorf("%q: %+v", body, r)
		}
		if err != nil && !errors.As(err, new(*fault.Fault)) {
			t.Errorf("%q: %v is no fault", body, err)
		}
	})
}
