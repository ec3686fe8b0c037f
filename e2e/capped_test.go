package e2e

import (
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestD87UsageThatCannotBeIsNotCharged: a provider that reports more tokens than the model's window and the longest answer, or fewer than
// none, is answered and charged within these bounds, and the alarm is raised.
func TestD87UsageThatCannotBeIsNotCharged(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 10}", More: "context: 1000, max_output: 500"}}},
	}})
	for _, row := range []struct {
		name  string
		usage fake.Usage
		paid  int64
	}{
		{"too much output", fake.Usage{Input: 100, Output: 9_000_000_000_000_000}, 100 + 14_000},
		{"too much input", fake.Usage{Input: 9_000_000_000_000_000, Output: 7}, 1_500},
		{"less than nothing", fake.Usage{Input: 100, Output: -7}, 100 + 80}, // what was seen of the answer
	} {
		for _, stream := range []bool{false, true} {
			key := g.CreateKey(t, "--name", "k", "--balance-usd", "10").Key
			p.Behave(fake.Behaviour{Usage: &row.usage})
			got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", stream: stream}.with(key))
			if got.Status != http.StatusOK {
				t.Errorf("%s, stream=%v: %d %s", row.name, stream, got.Status, got.Body)
			}
			if paid := 10_000_000 - balanceOf(t, g, key); paid != row.paid {
				t.Errorf("%s, stream=%v: %d were taken, want %d", row.name, stream, paid, row.paid)
			}
		}
	}
	if n := g.Metrics(t).Sum("bardo_usage_capped_total", `provider="p"`); n != 4 { // a count below zero is read as none
		t.Errorf("the alarm was raised %v times, not 4", n)
	}
	if !strings.Contains(g.Log(), `"provider":"p","model":"m"`) {
		t.Error("the log does not name the provider")
	}
	g.AssertSound(t)
}
