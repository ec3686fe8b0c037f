package run

import (
	"testing"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
)

// Every provider has a name of its own in Envoy's configuration, whatever the operator calls its servers.
func TestClustersHaveNamesOfTheirOwn(t *testing.T) {
	cfg, problems := config.Parse("config.yaml", []byte(`
providers:
  direct: {keys: [{provider: openai, api_key: a, base_url: http://localhost:1/v1}, {provider: openai, api_key: b, base_url: http://localhost:1/v1, models: [x]}]}
  custom:
    - {id: direct.openai, endpoints: [http://localhost:1/v1]}
    - {id: direct-openai, endpoints: [http://localhost:1/v1]}
`), func(string) (string, bool) { return "", false }, kind.Kind{Name: "openai", Section: kind.VendorSection})
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	seen := map[string]string{}
	for _, p := range cfg.Enabled() {
		name := string(clusterID(p))
		if other, ok := seen[name]; ok {
			t.Errorf("%s and %s are both called %s", p.ID, other, name)
		}
		seen[name] = string(p.ID)
	}
	if len(seen) != 4 {
		t.Errorf("got %v", seen)
	}
}
