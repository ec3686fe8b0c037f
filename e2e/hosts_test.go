package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestAHostServesWhatItIsNamedFor: any of its models under its name, and under their own those that the operator lists.
func TestAHostServesWhatItIsNamedFor(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Vendor: fake.Groq})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(
		"providers:\n  groq: {base_url: %q, api_key: %q, models: [{id: gpt-oss-120b, upstream_id: openai/gpt-oss-120b}]}\n", s.URL, s.Key)})
	for model, upstream := range map[string]string{"groq/llama-9": "llama-9", "gpt-oss-120b": "openai/gpt-oss-120b"} {
		a := ask{dialect: fake.OpenAI, model: model, more: `"logit_bias":{"5":1}`}
		got := g.Do(t, a.call())
		if got.Status != http.StatusOK || lastOf(t, s).Model != upstream {
			t.Fatalf("%s: %d %s", model, got.Status, got.Body)
		}
		if !slices.Contains(lost(got), "logit_bias") {
			t.Errorf("%s: what it refuses is not named: %v", model, lost(got))
		}
	}
	a := ask{dialect: fake.OpenAI, model: "llama-9"}
	if got := g.Do(t, a.call()); got.Status != http.StatusNotFound {
		t.Errorf("a model that nobody lists is served by a host that the request does not name: %d %s", got.Status, got.Body)
	}
	g.AssertSound(t)
}

// TestAzureIsAskedForDeployments by their names, with its own header and the version of its API, streamed and not, by clients of each format.
func TestAzureIsAskedForDeployments(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Vendor: fake.Azure})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(
		"providers:\n  azure: {base_url: %q, api_key: %q, api_version: 2025-01-01, models: [{id: gpt-4o, upstream_id: mine}]}\n", s.URL, s.Key)})
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		for _, stream := range []bool{false, true} {
			a := ask{dialect: d, model: "gpt-4o", stream: stream}
			if got := g.Do(t, a.call()); got.Status != http.StatusOK || text(t, a, got) != "Hello from the fake provider." {
				t.Fatalf("%s: %d %s", d, got.Status, got.Body)
			}
			if r := lastOf(t, s); r.Path != "/v1/openai/deployments/mine/chat/completions" || r.RawQuery != "api-version=2025-01-01" || r.Header.Get("Authorization") != "" {
				t.Errorf("%s: it was asked on %s?%s", d, r.Path, r.RawQuery)
			}
		}
	}
	g.AssertSound(t)
}
