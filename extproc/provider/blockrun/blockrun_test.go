package blockrun_test

import (
	"flag"
	"testing"

	"bardo.money/gateway/extproc/provider/blockrun"
	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "update the golden files")

func TestConformance(t *testing.T) {
	providertest.Run(t, blockrun.Adapter{}, providertest.OfFamily(blockrun.Adapter{}, "claude"))
}

func TestRequests(t *testing.T) {
	providertest.Golden(t, *update, blockrun.Adapter{},
		providertest.Model{Name: "claude", To: policy.Resolution{Family: "claude", Upstream: "anthropic/claude-opus-4.6", AdaptiveThinking: true, MaxOutput: 128_000}},
		providertest.Model{Name: "gpt", To: policy.Resolution{Family: "gpt", Upstream: "openai/gpt-5.2", Control: policy.ControlEffort, Efforts: []string{"none", "low", "medium", "high", "xhigh"}}},
		providertest.Model{Name: "gemini", To: policy.Resolution{Family: "gemini", Upstream: "google/gemini-3-flash"}},
		providertest.Model{Name: "qwen", To: policy.Resolution{Family: "qwen", Upstream: "qwen/qwen3-235b"}},
		providertest.Model{Name: "deepseek", To: policy.Resolution{Family: "deepseek", Upstream: "deepseek/deepseek-r1"}},
	)
}
