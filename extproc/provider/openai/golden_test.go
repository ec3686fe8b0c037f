package openai_test

import (
	"flag"
	"testing"

	"bardo.money/gateway/extproc/provider/openai"
	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "update the golden files")

func TestRequests(t *testing.T) {
	providertest.Golden(t, *update, openai.Adapter{},
		providertest.Model{Name: "reasons", To: policy.Resolution{Family: "gpt", Upstream: "gpt-5.2", Control: policy.ControlEffort, Efforts: []string{"none", "low", "medium", "high", "xhigh"}}},
		providertest.Model{Name: "does-not", To: policy.Resolution{
			Family: "gpt", Upstream: "gpt-4.1", Control: policy.ControlNone, Features: []policy.Feature{policy.PredictedOutputs},
		}},
		providertest.Model{Name: "searches", To: policy.Resolution{
			Family: "gpt", Upstream: "gpt-4o-search-preview", Control: policy.ControlNone, Features: []policy.Feature{policy.WebSearch},
		}},
	)
}
