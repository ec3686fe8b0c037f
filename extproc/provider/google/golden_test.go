package google_test

import (
	"flag"
	"testing"

	"bardo.money/gateway/extproc/provider/google"
	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "update the golden files")

func TestRequests(t *testing.T) {
	providertest.Golden(t, *update, google.Adapter{},
		providertest.Model{Name: "levels", To: policy.Resolution{
			Family: "gemini", Upstream: "gemini-3-pro-preview", MaxOutput: 65_536, StructuredOutputs: true, Efforts: []string{"low", "high"}, Features: []policy.Feature{policy.WebSearch},
		}},
		providertest.Model{Name: "budget", To: policy.Resolution{
			Family: "gemini", Upstream: "gemini-2.5-flash", MaxOutput: 65_536, StructuredOutputs: true,
		}},
	)
}
