package anthropic_test

import (
	"flag"
	"testing"

	"bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "update the golden files")

func TestRequests(t *testing.T) {
	providertest.Golden(t, *update, anthropic.Adapter{},
		providertest.Model{Name: "adaptive", To: policy.Resolution{
			Family: "claude", Upstream: "claude-opus-4-6", AdaptiveThinking: true, StructuredOutputs: true, MaxOutput: 128_000,
			Control: policy.ControlAdaptive, Efforts: []string{"low", "medium", "high", "max"},
		}},
		providertest.Model{Name: "always", To: policy.Resolution{
			Family: "claude", Upstream: "claude-opus-5-5", AdaptiveThinking: true, StructuredOutputs: true, MaxOutput: 128_000,
			Control: policy.ControlAdaptive, FixedSampling: true, Thinks: policy.ThinksAlways, Efforts: []string{"low", "medium", "high", "xhigh", "max"},
		}},
		providertest.Model{Name: "budget", To: policy.Resolution{
			Family: "claude", Upstream: "claude-haiku-4-5", MaxOutput: 64_000, Control: policy.ControlBudget,
		}},
	)
}
