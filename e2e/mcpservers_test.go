package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestMCPServersOfAnthropicsFormatAreNamedElsewhere: other providers do not call them, and the answer says so.
func TestMCPServersOfAnthropicsFormatAreNamedElsewhere(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "openai", Fake: fake.Start(t, fake.Config{Dialect: fake.OpenAI})}, {ID: "google", Fake: fake.Start(t, fake.Config{Dialect: fake.Gemini})},
	}})
	for _, model := range []string{"gpt-4o", "gpt-5.2", "gemini-3-flash", "auto"} {
		got := g.Do(t, gateway.Call{Path: "/v1/messages", Header: []string{"anthropic-beta: mcp-client-2025-11-20"}, Body: fmt.Sprintf(
			`{"model":%q,"max_tokens":9,"mcp_servers":[{"type":"url","name":"s","url":"https://mcp.example/","authorization_token":"t"}],`+
				`"tools":[{"type":"mcp_toolset","mcp_server_name":"s"}],"messages":[{"role":"user","content":"hi"}]}`, model)})
		if names := lost(got); got.Status != http.StatusOK || !slices.Contains(names, "mcp_servers") || !slices.Contains(names, "mcp_toolset") {
			t.Errorf("%s: %d %s, degraded %v", model, got.Status, got.Body, names)
		}
	}
	g.AssertSound(t)
}
