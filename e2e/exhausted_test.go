package e2e

import (
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestK43AllFail: when no provider helps, the client gets one JSON error whose status says what all of them had in
// common, and never a 200.
func TestK43AllFail(t *testing.T) {
	t.Parallel()
	hang := fake.Behaviour{Break: fake.Break{Kind: fake.Hang}}
	rows := []struct {
		name          string
		first, second fake.Behaviour
		status        int
		code          string
		retryAfter    string
	}{
		{"all rate limited", fake.Behaviour{Status: 429, RetryAfter: "9"}, fake.Behaviour{Status: 429, RetryAfter: "4"}, 429, "rate_limit_exceeded", "4"},
		{"all overloaded", fake.Behaviour{Status: 503}, fake.Behaviour{Status: 529}, 503, "overloaded", ""},
		{"all overloaded in Anthropic's words", fake.Behaviour{Status: 529}, fake.Behaviour{Status: 529}, 529, "overloaded", "5"},
		{"all silent", hang, hang, 504, "upstream_timeout", ""},
		{"all credentials bad", fake.Behaviour{Status: 401, Message: "the secret sk-abc is bad"}, fake.Behaviour{Status: 403, Message: "the secret sk-abc is bad"}, 502, "upstream_error", ""},
		{"a mixture", fake.Behaviour{Status: 500}, fake.Behaviour{Status: 429, RetryAfter: "3"}, 502, "upstream_error", ""},
	}
	o := gateway.Options{Config: hasty}
	asks := map[string][]ask{}
	for i, r := range rows {
		for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
			for _, stream := range []bool{false, true} {
				model := fmt.Sprintf("model-%d-%s-%v", i, d, stream)
				asks[r.name] = append(asks[r.name], ask{dialect: d, model: model, stream: stream})
				for j, b := range []fake.Behaviour{r.first, r.second} {
					id := fmt.Sprintf("%s-%d", model, j)
					f := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: id})
					f.Behave(b)
					o.Providers = append(o.Providers, gateway.Provider{ID: id, Fake: f, Models: models(model, "")})
				}
			}
		}
	}
	g := gateway.Run(t, o)
	t.Run("rows", func(t *testing.T) {
		for _, r := range rows {
			for _, a := range asks[r.name] {
				t.Run(fmt.Sprintf("%s/%s stream=%v", r.name, a.dialect, a.stream), func(t *testing.T) {
					t.Parallel()
					got := g.Do(t, a.call())
					want := r.status
					if want == 529 && a.dialect != fake.Anthropic {
						want = 503 // only Anthropic's clients know the other
					}
					mustFail(t, a, got, want, r.code)
					if ra := got.Header.Get("Retry-After"); r.retryAfter != "" && ra != r.retryAfter {
						t.Errorf("Retry-After %q, want %q", ra, r.retryAfter)
					}
					if strings.Contains(got.Body, "sk-abc") {
						t.Errorf("the provider's text about our credential reached the client: %s", got.Body)
					}
					if strings.Contains(got.Body, "message_start") {
						t.Errorf("content in an error: %s", got.Body)
					}
				})
			}
		}
	})
	g.AssertSound(t)
}
