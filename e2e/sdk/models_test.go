package sdk

import (
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestAnthropicsSDKReadsTheModels: GET /v1/models has the form of Anthropic's Models API, with its capabilities and its pages.
func TestAnthropicsSDKReadsTheModels(t *testing.T) {
	t.Parallel()
	vendor, own := fake.Start(t, fake.Config{Dialect: fake.Anthropic}), fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: settings, Providers: []gateway.Provider{
		{ID: "anthropic", Fake: vendor},
		{ID: "own", Fake: own, Models: []gateway.Model{{ID: "other", More: "capabilities: [tools]"}, {ID: "unknown"}}},
	}})
	out, errs, err := runDriver(t, python("models_driver.py")(t), access(g)...)
	if err != nil || strings.TrimSpace(out) != "ok" {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
}
