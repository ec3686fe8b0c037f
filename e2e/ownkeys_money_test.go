package e2e

import (
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestP13NoLimitOfMoneyStandsBeforeAUsersOwnKey: not an empty balance, a blocked key, the day's money, the hour's tokens or an agent's
// budget. What the key itself may not do is refused all the same.
func TestP13NoLimitOfMoneyStandsBeforeAUsersOwnKey(t *testing.T) {
	t.Parallel()
	o := runOwnVendors(t, "limits: {rpm: 0, tokens_per_hour: 50000}\n"+`routing: {ping_interval: 1h}`+"\n")
	o.openai.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 40_000, Output: 20}})
	paid := ask{dialect: fake.OpenAI, model: "gpt-4.1-mini", more: `"max_tokens":10`}
	useUp := func(t *testing.T, k gateway.NewKey, status int, hints []string) {
		t.Helper()
		var last gateway.Answer
		for range 3 {
			if last = o.Do(t, paid.with(k.Key, hints...)); last.Status == status {
				return
			}
		}
		t.Fatalf("the operator's provider is not refused: %d %s", last.Status, last.Body)
	}
	for _, row := range []struct {
		name  string
		flags []string
		paid  int // the status of what the operator pays
		hints []string
		own   int
	}{
		{"an empty balance", []string{"--balance-usd", "0"}, 402, nil, 200},
		{"a blocked key", []string{"--balance-usd", "0.001"}, 402, nil, 200},
		{"the day's money", []string{"--limit-usd-day", "0.001"}, 429, nil, 200},
		{"the hour's tokens", nil, 429, nil, 200},
		{"an agent's budget", nil, 429, []string{"X-Bardo-Subsystem: context", "X-Bardo-Daily-Budget-USD: 0.001", "X-Bardo-Golem-Id: g1"}, 200},
		{"a read-only key", []string{"--read-only"}, 403, nil, 403},
	} {
		t.Run(row.name, func(t *testing.T) {
			k := o.CreateKey(t, append([]string{"--name", "k"}, row.flags...)...)
			useUp(t, k, row.paid, row.hints)
			for _, a := range []ask{
				{dialect: fake.OpenAI, model: "direct/openai/gpt-4.1-mini"},
				{dialect: fake.OpenAI, model: "direct/openai/gpt-4.1-mini", stream: true},
				{dialect: fake.Anthropic, model: "direct/anthropic/claude-sonnet-4-5", stream: true},
			} {
				c := a.with(k.Key)
				c.Header = append(c.Header, row.hints...)
				if got := o.Do(t, c); got.Status != row.own || row.own == http.StatusOK && got.Header.Get("X-Bardo-Cost") != "direct" {
					t.Errorf("%+v: %d %s", a, got.Status, got.Body)
				}
			}
		})
	}
	o.AssertSound(t)
}

// TestP13AnEmptyKeyIsServedByItsUsersKeyBeforeTheOperators: candidates that somebody else pays for are left out, not the request.
func TestP13AnEmptyKeyIsServedByItsUsersKeyBeforeTheOperators(t *testing.T) {
	t.Parallel()
	o := runOwnVendors(t, quick)
	k := o.CreateKey(t, "--name", "empty", "--balance-usd", "0")
	for _, stream := range []bool{false, true} {
		c := ask{dialect: fake.OpenAI, model: "auto", stream: stream}.call("X-Bardo-Require: predicted_outputs", "X-Bardo-Subsystem: playbook")
		c.Key = k.Key
		got := o.Do(t, c)
		if by := got.Header.Get("X-Bardo-Provider"); got.Status != http.StatusOK || !strings.HasPrefix(by, "direct/openai") {
			t.Errorf("%d, by %q: %s", got.Status, by, got.Body)
		}
	}
	if n := len(o.openai.Generations()); n != 0 {
		t.Errorf("%d requests went to the operator's account", n)
	}
}
