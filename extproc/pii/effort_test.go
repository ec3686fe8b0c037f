package pii_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/internal/racetest"
)

// TestBeginningsOfSecretsTakeTimeInProportionToTheText: each was looked at to the end of the text. What is a secret behind them is found.
func TestBeginningsOfSecretsTakeTimeInProportionToTheText(t *testing.T) {
	t.Parallel()
	const secret = "sk-proj-9fKq2LmX7vTb4RzW8nYc"
	bytes := racetest.Less(1 << 19)
	for _, begin := range []string{"sk-", "sk-ant-", "glpat-", "eyJ-", "eyJ.", "SG.", "xoxb-a", "ya29.", "hvs."} {
		text := strings.Repeat(begin, bytes/len(begin)) + " " + secret
		began := time.Now()
		spans, err := pii.NewScanner(all).Find(t.Context(), text)
		if err != nil || !slices.ContainsFunc(spans, func(s pii.Span) bool { return text[s.Start:s.End] == secret }) {
			t.Errorf("%s: %d spans, %v", begin, len(spans), err)
		}
		if took := time.Since(began); took > 20*time.Second { // it was minutes
			t.Errorf("%s: %v", begin, took)
		}
	}
}
