package qwen_test

import (
	"flag"
	"testing"

	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/extproc/provider/qwen"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "update the golden files")

func TestConformance(t *testing.T) { providertest.Run(t, qwen.Adapter{}) }

func TestRequests(t *testing.T) {
	providertest.Golden(t, *update, qwen.Adapter{},
		providertest.Model{Name: "hybrid", To: policy.Resolution{Family: "qwen", Upstream: "qwen-plus"}},
		providertest.Model{Name: "streamed", To: policy.Resolution{Family: "qwen", Upstream: "qwen3-32b", Control: policy.ControlStreamed}},
	)
}
