package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestTheFormThatTheGatewayAsksForIsReserved: where a model is told of a schema in words, it reads the schema besides what the client sent.
func TestTheFormThatTheGatewayAsksForIsReserved(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Models: []gateway.Model{{ID: "plain", Price: "{input: 100, output: 0.001}", More: "capabilities: []"}}},
	}})
	p.Behave(fake.Behaviour{JSON: `{"a":"b"}`, Usage: &fake.Usage{Input: 10, Output: 10}})
	// 10,000 bytes are 5,000 tokens, and half a dollar: once in what the client sent, and once more in what the model is told.
	schema := fmt.Sprintf(`{"type":"object","description":%q,"properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`, strings.Repeat("x", 10_000))
	form := shaper("openai").schema("answer", schema) + `,"max_tokens":100`
	for balance, want := range map[string]int{"1.5": http.StatusPaymentRequired, "2.5": http.StatusOK} { // it may be asked twice
		c := ask{dialect: fake.OpenAI, model: "plain", more: form}.call()
		c.Key = g.CreateKey(t, "--name", "k", "--balance-usd", balance).Key
		if got := g.Do(t, c); got.Status != want {
			t.Errorf("with $%s: %d %s", balance, got.Status, got.Body)
		}
	}
	g.AssertSound(t)
}

// TestTheThoughtsThatAProfileAsksForAreReserved: they lengthen the answer beyond the client's own limit.
func TestTheThoughtsThatAProfileAsksForAreReserved(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Format: "anthropic", Models: []gateway.Model{{ID: "claude-sonnet-4-5", Price: "{input: 0.001, output: 100}"}}},
	}})
	for subsystem, want := range map[string]int{"": http.StatusOK, "risk": http.StatusPaymentRequired} {
		a := ask{dialect: fake.OpenAI, model: "claude-sonnet-4-5", more: `"max_tokens":1000`} // ten cents
		c := a.call()
		if subsystem != "" {
			c = a.call("X-Bardo-Subsystem: " + subsystem)
		}
		c.Key = g.CreateKey(t, "--name", "k", "--balance-usd", "1").Key // thoughts may cost thirteen
		if got := g.Do(t, c); got.Status != want {
			t.Errorf("%q: %d %s", subsystem, got.Status, got.Body)
		}
	}
	g.AssertSound(t)
}

// TestAStoredAnswerUsesNoTokens of its key's hourly allowance: nobody made them.
func TestAStoredAnswerUsesNoTokens(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 400, Output: 601}})
	g := gateway.Run(t, gateway.Options{Config: "limits: {rpm: 0, tokens_per_hour: 2000}\n", Providers: []gateway.Provider{{ID: "one", Fake: p, Models: models("m", "")}}})
	c := ask{dialect: fake.OpenAI, model: "m"}.call("X-Bardo-Cache: force")
	c.Key = g.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	for _, known := range []string{"miss", "hash", "hash"} {
		got := g.Do(t, c)
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cache") != known || got.Header.Get("X-Remaining-Tokens") != "999" {
			t.Errorf("%d, cache %q, %q tokens are left", got.Status, got.Header.Get("X-Bardo-Cache"), got.Header.Get("X-Remaining-Tokens"))
		}
	}
}
