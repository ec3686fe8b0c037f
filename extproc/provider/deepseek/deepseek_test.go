package deepseek_test

import (
	"flag"
	"testing"

	"bardo.money/gateway/extproc/provider/deepseek"
	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "update the golden files")

func TestConformance(t *testing.T) { providertest.Run(t, deepseek.Adapter{}) }

func TestRequests(t *testing.T) {
	providertest.Golden(t, *update, deepseek.Adapter{},
		providertest.Model{Name: "chat", To: policy.Resolution{Family: "deepseek", Upstream: "deepseek-chat"}},
		providertest.Model{Name: "effort", To: policy.Resolution{Family: "deepseek", Upstream: "deepseek-v4-pro", Control: policy.ControlEffort}},
		providertest.Model{Name: "reasoner", To: policy.Resolution{Family: "deepseek", Upstream: "deepseek-reasoner", Control: policy.ControlAlways}},
	)
}
