package pay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// stranger is a payment that is signed without a price: version 1 has no place for one.
func stranger(t *testing.T, c *chain) *payment {
	t.Helper()
	pm := accept(t, quote{Accepts: []requirement{{Scheme: "exact", Amount: "50000", Asset: c.Token.Hex(), PayTo: payTo, MaxTimeoutSeconds: 4000}}})
	pm.Version = 1
	return pm.sign(t)
}

// TestAPaymentIsNotForKeysOfUsers: what is served by a user's own key costs the gateway nothing, and so would cost a stranger nothing.
func TestAPaymentIsNotForKeysOfUsers(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	own := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own-openai"})
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}})
	for _, engineered := range []bool{false, true} {
		t.Run(fmt.Sprint("engineered ", engineered), func(t *testing.T) {
			g := gateway.Run(t, gateway.Options{Config: c.config("") + fmt.Sprintf(`providers:
  direct: {keys: [{provider: openai, api_key: %q, base_url: %q, context_engineering: %v, models: [gpt-4.1]}]}
  openai: {api_key: %q, base_url: %q}
`, own.Key, own.URL, engineered, p.Key, p.URL)})
			body := func(model string) string { return strings.Replace(chatBody(false), `"m"`, `"`+model+`"`, 1) }
			for _, header := range [][]string{nil, {stranger(t, c).header()}} {
				got := g.Do(t, gateway.Call{NoKey: true, Path: "/v1/chat/completions", Body: body("direct/openai/gpt-4.1"), Header: header})
				if got.Status != http.StatusForbidden || !strings.Contains(got.Body, "key_restricted") {
					t.Errorf("%d %s", got.Status, got.Body)
				}
			}
			if got := stranger(t, c).send(t, g, body("gpt-4.1")); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cost") == "direct" {
				t.Errorf("at the operator's key: %d %s", got.Status, got.Body)
			}
			if n := len(own.Generations()); n != 0 {
				t.Errorf("the user's key was used %d times", n)
			}
			if got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: body("direct/openai/gpt-4.1")}); got.Status != http.StatusOK || len(own.Generations()) != 1 {
				t.Errorf("with a key: %d %s", got.Status, got.Body)
			}
			own.Forget()
		})
	}
}

// TestAPayerIsNotACallerWithoutAKey: before it has paid, nobody knows who it is, and it has nothing of what callers without a key have stored.
func TestAPayerIsNotACallerWithoutAKey(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{
		Config:    c.config("") + "auth: {anonymous: true}\n",
		Providers: []gateway.Provider{{ID: "p", Fake: p, More: "responses: true", Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 40}"}}}},
	})
	respond := func(more string, header ...string) gateway.Answer {
		return g.Do(t, gateway.Call{NoKey: true, Path: "/v1/responses", Body: `{"model":"m","max_output_tokens":100,"input":"my secret"` + more + `}`, Header: header})
	}
	var made struct{ ID string }
	got := respond("")
	if got.Status != http.StatusOK || json.Unmarshal([]byte(got.Body), &made) != nil || made.ID == "" {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	it := fmt.Sprintf(`,"previous_response_id":%q`, made.ID)
	if got := respond(it); got.Status != http.StatusOK {
		t.Errorf("its own: %d %s", got.Status, got.Body)
	}
	calls := len(p.Generations())
	for range 2 { // the second is of a wallet that is known
		if got := respond(it, stranger(t, c).header()); got.Status != http.StatusNotFound {
			t.Errorf("another's: %d %s", got.Status, got.Body)
		}
		if got := len(p.Generations()); got != calls {
			t.Fatalf("%d calls, want %d", got, calls)
		}
		if got := respond("", stranger(t, c).header()); got.Status != http.StatusOK {
			t.Errorf("%d %s", got.Status, got.Body)
		}
		calls++
	}
	settle(t, c, 2)
	g.AssertSound(t)
}
