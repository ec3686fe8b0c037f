package custom_test

import (
	"flag"
	"testing"

	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "update the golden files")

func TestRequests(t *testing.T) {
	providertest.Golden(t, *update, custom.Adapter{},
		providertest.Model{Name: "server"},
		providertest.Model{Name: "template", To: policy.Resolution{Family: "qwen", Upstream: "Qwen/Qwen3-32B", Control: policy.ControlTemplate}},
		providertest.Model{Name: "slash", To: policy.Resolution{Family: "qwen", Upstream: "Qwen/Qwen3-8B", Control: policy.ControlSlash}},
		providertest.Model{Name: "level", To: policy.Resolution{Family: "gemini", Upstream: "gemini-3-flash", Control: policy.ControlLevel}},
	)
}
