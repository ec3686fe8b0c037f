package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// noFreeTokens is a quota that no request of the plan free fits into.
const noFreeTokens = "quotas: [{name: free, window: 24h, limit: 1, cost: total_tokens, when: tier == 'free'}]"

// TestP13NoLimitOfMoneyStandsBeforeAUsersOwnKey: not an empty balance, a blocked key, the day's money, the hour's tokens or an agent's
// budget. What the key itself may not do is refused all the same.
func TestP13NoLimitOfMoneyStandsBeforeAUsersOwnKey(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	o := runOwnVendors(t, "limits: {rpm: 0, tokens_per_hour: 50000, "+noFreeTokens+"}\n"+`routing: {ping_interval: 1h}`+"\n")
	o.openai.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 40_000, Output: 20}})
	paid := ask{dialect: fake.OpenAI, model: "gpt-4.1-mini", more: `"max_tokens":10`}
	useUp := func(t *testing.T, k gateway.NewKey, status int, hints []string) {
		t.Helper()
		var last gateway.Answer
		for i := range 3 {
			paid.say = fmt.Sprint("another observation, ", i) // not one that is stored
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
		{"a quota", []string{"--tier", "free"}, 429, nil, 200},
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
	o := runOwnVendors(t, strings.Replace(quick, "rpm: 0", "rpm: 0, "+noFreeTokens, 1))
	k, free := o.CreateKey(t, "--name", "empty", "--balance-usd", "0"), o.CreateKey(t, "--name", "free", "--tier", "free")
	for i, key := range []string{k.Key, k.Key, free.Key, free.Key} {
		c := ask{dialect: fake.OpenAI, model: "auto", stream: i%2 == 1}.call("X-Bardo-Require: predicted_outputs", "X-Bardo-Subsystem: playbook")
		c.Key = key
		got := o.Do(t, c)
		if by := got.Header.Get("X-Bardo-Provider"); got.Status != http.StatusOK || !strings.HasPrefix(by, "direct/openai") {
			t.Errorf("%d, by %q: %s", got.Status, by, got.Body)
		}
	}
	o.ownOpenAI.Behave(fake.Behaviour{Status: http.StatusInternalServerError})
	o.engineered.Behave(fake.Behaviour{Status: http.StatusInternalServerError})
	c := ask{dialect: fake.OpenAI, model: "auto"}.call("X-Bardo-Require: predicted_outputs", "X-Bardo-Subsystem: playbook")
	c.Key = k.Key
	if got := o.Do(t, c); got.Status < http.StatusInternalServerError {
		t.Errorf("the user's provider fails: %d, by %q", got.Status, got.Header.Get("X-Bardo-Provider"))
	}
	if n := len(o.openai.Generations()); n != 0 {
		t.Errorf("%d requests went to the operator's account", n)
	}
}

// TestP13WhatIsAskedBesideAUsersOwnKeyIsPaidFor: a verification by the operator's account needs money, though the answer does not.
func TestP13WhatIsAskedBesideAUsersOwnKeyIsPaidFor(t *testing.T) {
	t.Parallel()
	own, other := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own"}), fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "other"})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
providers:
  order: [direct, other]
  direct: {keys: [{provider: openai, api_key: %s, base_url: %q, models: [gpt-4.1], context_engineering: true}]}
  custom: [{id: other, format: anthropic, endpoints: [%q], api_key: %s, models: [{id: claude-opus-4-6, price: {input: 3, output: 4}}]}]
`, own.Key, own.URL, other.URL, other.Key)})
	c := shaper("openai").call("gpt-4.1", false, "May it?", "")
	c.Key = g.CreateKey(t, "--name", "empty", "--balance-usd", "0").Key
	if got := g.Do(t, c); got.Status != http.StatusOK || len(own.Generations()) != 1 {
		t.Fatalf("without a verification: %d %s", got.Status, got.Body)
	}
	c.Header = append(c.Header, "X-Bardo-Verify: true")
	mustFail(t, ask{dialect: fake.OpenAI}, g.Do(t, c), http.StatusPaymentRequired, "insufficient_balance")
	if n, m := len(own.Generations()), len(other.Generations()); n != 1 || m != 0 {
		t.Errorf("%d and %d calls", n, m)
	}
}
