package bankr_test

import (
	"flag"
	"testing"

	"bardo.money/gateway/extproc/provider/bankr"
	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "update the golden files")

func TestConformance(t *testing.T) {
	providertest.Run(t, bankr.Adapter{}, providertest.OfFamily(bankr.Adapter{}, "claude"))
}

func TestRequests(t *testing.T) {
	providertest.Golden(t, *update, bankr.Adapter{},
		providertest.Model{Name: "claude", To: policy.Resolution{Family: "claude", Upstream: "claude-sonnet-4.5", MaxOutput: 64_000}},
		providertest.Model{Name: "gpt", To: policy.Resolution{Family: "gpt", Upstream: "gpt-5.2", Control: policy.ControlEffort, Efforts: []string{"none", "low", "medium", "high", "xhigh"}}},
		providertest.Model{Name: "gemini", To: policy.Resolution{Family: "gemini", Upstream: "gemini-3-flash"}},
	)
}
