package venice_test

import (
	"flag"
	"testing"

	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/extproc/provider/venice"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "update the golden files")

func TestConformance(t *testing.T) { providertest.Run(t, venice.Adapter{}) }

func TestRequests(t *testing.T) {
	characters := map[string]string{"risk-assessor": "sober-analyst"}
	providertest.Golden(t, *update, venice.Adapter{},
		providertest.Model{Name: "open", To: policy.Resolution{
			Family: "deepseek", Upstream: "deepseek-r1", Private: true, Features: []policy.Feature{policy.TEEAttested},
		}, At: provider.Endpoint{Characters: characters}},
		providertest.Model{Name: "claude", To: policy.Resolution{
			Family: "claude", Upstream: "claude-opus-4-6", Efforts: []string{"none", "low", "medium", "high", "max"},
		}},
	)
}
