package openrouter_test

import (
	"flag"
	"testing"

	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/openrouter"
	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "update the golden files")

func TestConformance(t *testing.T) { providertest.Run(t, openrouter.Adapter{}) }

func TestRequests(t *testing.T) {
	providertest.Golden(t, *update, openrouter.Adapter{},
		providertest.Model{Name: "claude", To: policy.Resolution{Family: "claude", Upstream: "anthropic/claude-opus-4.6"}},
		providertest.Model{Name: "preferences", To: policy.Resolution{Family: "deepseek", Upstream: "deepseek/deepseek-chat"}, At: provider.Endpoint{
			Fallbacks:   []string{"qwen/qwen3-235b", "openai/gpt-5-mini"},
			Preferences: []byte(`{"order":["together"],"allow_fallbacks":false,"data_collection":"allow"}`),
		}},
	)
}
