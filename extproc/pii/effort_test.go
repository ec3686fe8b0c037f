package pii_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/internal/racetest"
)

// TestBeginningsOfSecretsTakeTimeInProportionToTheText, and a secret after them is found.
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
		if took := time.Since(began); took > 20*time.Second { // quadratic time takes minutes
			t.Errorf("%s: %v", begin, took)
		}
	}
}

// TestWhatMightBeAddressesTakesTimeInProportionToTheText: every number and word could begin or continue an address.
func TestWhatMightBeAddressesTakesTimeInProportionToTheText(t *testing.T) {
	t.Parallel()
	bytes := racetest.Less(1 << 20)
	for _, part := range []string{"1 A St ", "1 A St, ", "1 A St\n", "12 rue ", "1, 10115 Ab ", "Str. 1, 1011 Ab ", "1 漢", "1 " + strings.Repeat("É", 5000), "PO Box 1, ", "1 St IL 1", "1 A St, Apt 1, ", "1 a st, ", "1 a st, b oh 1", "str. 1, ", "県", "東京都", "東京都市1", "〒100-0005 市1の", "番は03-1"} {
		text := strings.Repeat(part, bytes/len(part)) + " 12 Main St, Springfield, IL 62704"
		began := time.Now()
		if got := found(t, all, text); len(got) == 0 || !strings.Contains(got[len(got)-1], "12 Main St, Springfield, IL 62704") {
			t.Errorf("%.20q: %d found", part, len(got))
		}
		if took := time.Since(began); took > 20*time.Second { // linear time is a fraction of a second
			t.Errorf("%.20q: %v", part, took)
		}
	}
}
