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

// TestB13WhichProvidersAProxyReaches: those with an https address, unless they are excepted.
func TestB13WhichProvidersAProxyReaches(t *testing.T) {
	const proxy = "10.0.0.1:3128"
	cfg, problems := config.Parse("config.yaml", []byte(`providers:
  proxy: http://`+proxy+`
  no_proxy: [excepted, direct]
  direct: {keys: [{provider: local, api_key: sk-1, base_url: "https://d.example/v1"}]}
  custom:
    - {id: secure, endpoints: ["https://a.example/v1", "https://a.example:8443/v1"]}
    - {id: excepted, endpoints: ["https://c.example/v1"]}
    - {id: plain, endpoints: ["http://127.0.0.1:8000/v1"]}
`), func(string) (string, bool) { return "", false })
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	without := *cfg
	without.Providers.Proxy = config.URL{}
	for _, p := range cfg.Enabled() {
		want := ""
		if p.ID == "secure" {
			want = proxy
		}
		got := ""
		if at := cfg.ProxyOf(&p); at.IsValid() {
			got = at.String()
		}
		if other := settings.ClusterID(cfg, p) != settings.ClusterID(&without, p); got != want || other != (want != "") {
			t.Errorf("%s: through %q, want %q; another cluster: %v", p.ID, got, want, other)
		}
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
