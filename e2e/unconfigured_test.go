package e2e

import (
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestD88AModelOfAProviderThatIsNotConfiguredIs404: it says who serves the model and what enables that one, and no SDK sends it again.
func TestD88AModelOfAProviderThatIsNotConfiguredIs404(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}})
	for _, row := range []struct{ model, provider, variable string }{
		{"gpt-4o", "openai", "OPENAI_API_KEY"},
		{"openai/gpt-4o", "openai", "OPENAI_API_KEY"},
		{"claude-opus-4-6", "anthropic", "ANTHROPIC_API_KEY"},
		{"gemini-2.5-pro", "google", "GOOGLE_API_KEY or GEMINI_API_KEY"},
		{"openrouter/some/model", "openrouter", "OPENROUTER_API_KEY"},
		{"venice/some-model", "venice", "VENICE_API_KEY"},
	} {
		t.Run(row.model, func(t *testing.T) {
			says := "is served by " + row.provider + ", which is not configured: set " + row.variable + ", or providers." + row.provider
			for _, a := range everyKind(row.model) {
				got := g.Do(t, a.call())
				mustFail(t, a, got, http.StatusNotFound, "model_not_found")
				if !strings.Contains(got.Body, says) || got.Header.Get("X-Should-Retry") != "false" {
					t.Errorf("it says %s, X-Should-Retry %q", got.Body, got.Header.Get("X-Should-Retry"))
				}
			}
			if got := g.Do(t, ask{dialect: fake.OpenAI, model: row.model}.call("X-Bardo-Route: explain")); got.Status != http.StatusOK || !strings.Contains(got.Body, says) {
				t.Errorf("explained: %d %s", got.Status, got.Body)
			}
			if r := g.Try(t, "route", "--model", row.model); r.Code != 1 || !strings.Contains(r.Stderr, says) {
				t.Errorf("bardo route: %+v", r)
			}
		})
	}
	if n := len(p.Generations()); n != 0 {
		t.Errorf("%d requests reached a provider", n)
	}
}
