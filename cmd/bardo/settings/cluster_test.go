package settings_test

import (
	"testing"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
)

// Every provider has a unique cluster name, whatever names the operator chooses.
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
		name := string(settings.ClusterID(cfg, p))
		if other, ok := seen[name]; ok {
			t.Errorf("%s and %s are both called %s", p.ID, other, name)
		}
		seen[name] = string(p.ID)
	}
	if len(seen) != 4 {
		t.Errorf("got %v", seen)
	}
}

// TestAProviderThatIsReachedOtherwiseHasOtherClusters, and an unchanged one keeps them.
func TestAProviderThatIsReachedOtherwiseHasOtherClusters(t *testing.T) {
	name := func(more string) (cluster, place string) {
		cfg, problems := config.Parse("config.yaml", []byte("providers: {custom: [{id: p, endpoints: [http://localhost:1/v1]}]"+more), func(string) (string, bool) { return "", false })
		if config.Failed(problems) {
			t.Fatal(problems)
		}
		p := cfg.Enabled()[0]
		return string(settings.ClusterID(cfg, p)), string(settings.Place(p))
	}
	usual, place := name("}")
	for more, same := range map[string]bool{
		"}\nrouting: {timeouts: {idle: 7s}}":    true,
		"}\nrouting: {timeouts: {connect: 5s}}": true,
		"}\nrouting: {timeouts: {connect: 7s}}": false,
		", ca_file: /etc/hosts}":                false,
	} {
		if got, at := name(more); (got == usual) != same || at != place {
			t.Errorf("%s: %s at %s, before %s at %s", more, got, at, usual, place)
		}
	}
}
