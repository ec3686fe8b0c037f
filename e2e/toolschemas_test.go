package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestToolsWithCombinedSchemasAreAccepted: MCP servers describe tools with oneOf, anyOf or a reference at the top level of their schema, and without properties, which
// OpenAI and Anthropic refuse. Clients of the other formats may send them.
func TestToolsWithCombinedSchemasAreAccepted(t *testing.T) {
	t.Parallel()
	openai, anthropic := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Only: []string{onlyInResponses}}), fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "openai", Fake: openai}, {ID: "anthropic", Fake: anthropic}}})
	schemas := []string{
		`{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"}},"oneOf":[{"required":["path"]},{"required":["text"]}]}`,
		`{"$ref":"#/$defs/A","$defs":{"A":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}}`,
		`{"type":"object"}`,
	}
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		for model, p := range map[string]*fake.Server{"gpt-5.2": openai, onlyInResponses: openai, "claude-opus-4-6": anthropic} {
			if d == fake.OpenAI && model == "gpt-5.2" || d == fake.Anthropic && p == anthropic {
				continue // the provider's own format: its own error
			}
			var tools []string
			for i, s := range schemas {
				if d == fake.Anthropic {
					tools = append(tools, fmt.Sprintf(`{"name":"f%d","input_schema":%s}`, i, s))
				} else {
					tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"f%d","parameters":%s}}`, i, s))
				}
			}
			a := ask{dialect: d, model: model, more: `"tools":[` + strings.Join(tools, ",") + `]`}
			got := g.Do(t, a.call())
			if got.Status != http.StatusOK || !strings.Contains(got.Header.Get("X-Bardo-Degraded"), "tool_schema") {
				t.Errorf("%s for a client of %s: %d %s, degraded %q", model, d, got.Status, got.Body, got.Header.Get("X-Bardo-Degraded"))
			}
			if r := lastOf(t, p); r.Status != http.StatusOK || strings.Count(string(r.Body), `"path":{"type":"string"}`) < 2 {
				t.Errorf("%s for a client of %s: it was asked %s", model, d, r.Body)
			}
		}
	}
	g.AssertSound(t)
}

// TestAProbeWithOneTokenIsAccepted: Claude Code asks a model for one token before it uses it, and OpenAI's models that reason give at least 16.
func TestAProbeWithOneTokenIsAccepted(t *testing.T) {
	t.Parallel()
	g, p := responsesOnly(t)
	for model, limit := range map[string]string{"gpt-5.2": `"max_completion_tokens":16`, onlyInResponses: `"max_output_tokens":16`} {
		got := g.Do(t, gateway.Call{
			Path: "/v1/messages", Header: []string{"anthropic-version: 2023-06-01"},
			Body: fmt.Sprintf(`{"model":%q,"max_tokens":1,"messages":[{"role":"user","content":"quota"}]}`, model),
		})
		if r := lastOf(t, p); got.Status != http.StatusOK || !strings.Contains(string(r.Body), limit) || !strings.Contains(got.Header.Get("X-Bardo-Degraded"), "max_tokens") {
			t.Errorf("%s: %d %s, degraded %q; it was asked %s", model, got.Status, got.Body, got.Header.Get("X-Bardo-Degraded"), r.Body)
		}
	}
	g.AssertSound(t)
}
