package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

func mustParse(t *testing.T, text string, env ...string) *config.Config {
	t.Helper()
	cfg, problems := config.Parse("test.yaml", []byte(text), variables(env...), kinds...)
	if cfg == nil {
		t.Fatal(lines(problems))
	}
	return cfg
}

func TestDefaults(t *testing.T) {
	cfg := mustParse(t, "")
	for _, row := range []struct {
		key       string
		got, want any
	}{
		{"listen.http", cfg.Listen.HTTP, config.Addr("127.0.0.1:8080")},
		{"listen.https", cfg.Listen.HTTPS, config.Addr("127.0.0.1:8443")},
		{"listen.admin", cfg.Listen.Admin, config.Addr("127.0.0.1:9090")},
		{"listen.envoy_admin", cfg.Listen.EnvoyAdmin, config.Addr("")},
		{"limits.max_body_bytes", cfg.Limits.MaxBodyBytes, int64(33554432)},
		{"limits.max_inflight_body_bytes", cfg.Limits.MaxInflightBodyBytes, int64(268435456)},
		{"limits.body_idle", cfg.Limits.BodyIdle, 30 * time.Second},
		{"limits.body_total", cfg.Limits.BodyTotal, 5 * time.Minute},
		{"routing.max_retries", cfg.Routing.MaxRetries, 3},
		{"routing.ping_interval", cfg.Routing.PingInterval, 30 * time.Second},
		{"models.refresh", cfg.Models.Refresh, config.Interval(time.Hour)},
		{"routing.timeouts", cfg.Routing.Timeouts, config.Timeouts{
			Connect: 5 * time.Second, FirstToken: 30 * time.Second, FirstTokenReasoning: 180 * time.Second, Idle: time.Minute, Total: 15 * time.Minute, Heartbeat: 15 * time.Second,
		}},
		{"billing.reserve_output_tokens", cfg.Billing.ReserveOutputTokens, 4096},
		{"store.ledger", cfg.Store.LedgerFile("/state/bardo"), "/state/bardo/bardo.db"},
		{"xds.listen", cfg.XDS.Listen, config.Socket("127.0.0.1:18000")},
		{"only the demo provider", cfg.DemoOnly(), true},
	} {
		if row.got != row.want {
			t.Errorf("%s: got %v, want %v", row.key, row.got, row.want)
		}
	}
}

func enabled(cfg *config.Config) []string {
	var out []string
	for _, p := range cfg.Enabled() {
		out = append(out, string(p.ID))
	}
	return out
}

func TestEnabledProviders(t *testing.T) {
	const custom = `{custom: [{id: mine, endpoints: ["http://localhost:1/v1"]}], openai: {api_key: k}}`
	for _, row := range []struct {
		about, file string
		env         []string
		want        string
	}{
		{"nothing: the demo provider", "", nil, "demo"},
		{"an empty variable enables nothing", "", []string{"OPENAI_API_KEY="}, "demo"},
		{"a key in the environment enables its provider", "", []string{"OPENAI_API_KEY=k"}, "openai"},
		{"those of the environment come in the default order", "", []string{"OPENAI_API_KEY=k", "ANTHROPIC_API_KEY=k", "DEEPSEEK_API_KEY=k", "QWEN_API_KEY=k"}, "anthropic openai deepseek qwen"},
		{"without order, by appearance in the file", "providers: " + custom, nil, "mine openai"},
		{"those that only the environment names come last", "providers: " + custom, []string{"ANTHROPIC_API_KEY=k"}, "mine openai anthropic"},
		{"by order", "providers: {order: [openai, mine], custom: [{id: mine, endpoints: [http://localhost:1/v1]}], openai: {api_key: k}}", nil, "openai mine"},
		{"those that order does not name come after it", "providers: {order: [openai], custom: [{id: a, endpoints: [http://localhost:1/v1]}], anthropic: {api_key: k}, openai: {api_key: k}}", nil, "openai a anthropic"},
		{"order alone enables nothing", "providers: {order: [openai]}", nil, "demo"},
		{"each of the special ones by its key", "", []string{"OPENROUTER_API_KEY=k", "VENICE_API_KEY=k", "BANKR_API_KEY=k", "GOOGLE_API_KEY=k"}, "google openrouter venice bankr"},
		{"users' own keys stand where direct does", "providers: {order: [direct, openai], openai: {api_key: k}, direct: {keys: [{provider: openai, api_key: a}, {provider: anthropic, api_key: b}, {provider: openai, api_key: c, models: [x]}]}}", nil, "direct/openai direct/anthropic direct/openai-2 openai"},
		{"a host by its key", "", []string{"HOST_API_KEY=k"}, "host"},
		{"a server of the operator's by a host's name stands in its place", "providers: {custom: [{id: host, endpoints: [http://localhost:1/v1], models: [{id: m}]}]}", []string{"HOST_API_KEY=k"}, "host"},
		{"a host that needs no key is not enabled by one", "", []string{"LOCAL_API_KEY=k"}, "demo"},
		{"a host that needs no key, by its section", "providers: {local: {models: [{id: m}]}}", nil, "local"},
		{"a host without an address is enabled by its address and its key", "", []string{"CLOUD_API_KEY=k", "CLOUD_ENDPOINT=https://mine.cloud.example"}, "cloud"},
		{"and not by its key alone", "", []string{"CLOUD_API_KEY=k"}, "demo"},
		{"a regional one by its key and a region", "", []string{"REGIONAL_API_KEY=k", "AWS_DEFAULT_REGION=eu-west-1"}, "regional"},
		{"and not by its key alone, nor by credentials that others use", "", []string{"REGIONAL_API_KEY=k", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=s"}, "demo"},
		{"nor by credentials and a region", "", []string{"AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=s"}, "demo"},
		{"an own server needs no key", "providers: {openai: {base_url: http://localhost:1/v1}}", nil, "openai"},
	} {
		t.Run(row.about, func(t *testing.T) {
			if got := strings.Join(enabled(mustParse(t, row.file, row.env...)), " "); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// TestRegionalProviders: address, region and credential, from the file and from the environment. The file is before the environment, and a key before
// credentials of the environment.
func TestRegionalProviders(t *testing.T) {
	aws := []string{"AWS_REGION=us-west-2", "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret", "AWS_SESSION_TOKEN=token"}
	for _, row := range []struct {
		file           string
		env            []string
		at, region, is string
	}{
		{"{api_key: k, region: eu-west-1}", aws, "https://models.eu-west-1.cloud.example", "eu-west-1", "k"},
		{"{}", aws, "https://models.us-west-2.cloud.example", "us-west-2", "id secret token"},
		{"{}", append(aws, "REGIONAL_API_KEY=k"), "https://models.us-west-2.cloud.example", "us-west-2", "k"},
		{"{access_key_id: a, secret_access_key: b, region: us-gov-west-1}", append(aws, "REGIONAL_API_KEY=k"), "https://models.us-gov-west-1.cloud.example", "us-gov-west-1", "a b"},
		{"{access_key_id: a, secret_access_key: b, session_token: c}", []string{"AWS_DEFAULT_REGION=us-east-1"}, "https://models.us-east-1.cloud.example", "us-east-1", "a b c"},
		{"{api_key: k, region: us-east-1, base_url: https://vpce-1.example/}", nil, "https://vpce-1.example", "us-east-1", "k"},
	} {
		p := mustParse(t, "providers: {regional: "+row.file+"}", row.env...).Enabled()[0]
		if p.Endpoints[0].String() != row.at || p.Region != row.region || p.Key.Reveal() != row.is || len(p.Keys) != 1 {
			t.Errorf("%s: %s, region %q, key %q", row.file, p.Endpoints[0], p.Region, p.Key.Reveal())
		}
	}
}

func TestProviderData(t *testing.T) {
	cfg := mustParse(t, `
providers:
  openai: {base_url: "http://127.0.0.1:9/v1/"}
  qwen: {api_key: "x-${PART}"}
  custom: [{id: mine, format: anthropic, private: true, endpoints: [http://localhost:1/v1, http://localhost:2/v1], api_key: env:PART, models: [{id: m}]}]
`, "OPENAI_API_KEY=from-env", "PART=secret")
	const hosts = "providers: {host: {api_key: k, models: [{id: m}]}, cloud: {api_key: k, base_url: https://mine.cloud.example, api_version: 2025-01-01}}"
	for _, p := range mustParse(t, hosts).Enabled() {
		if p.ID == "host" && (p.Any || len(p.Models) != 1 || p.Catalog != "openai") || p.ID == "cloud" && p.APIVersion != "2025-01-01" {
			t.Errorf("%s: %+v", p.ID, p)
		}
	}
	all := map[policy.ProviderID]config.Provider{}
	for _, p := range cfg.Enabled() {
		all[p.ID] = p
	}
	for _, row := range []struct {
		about     string
		got, want any
	}{
		{"the environment's key stands in for the file's", all["openai"].Key.Reveal(), "from-env"},
		{"a base URL has no slash at its end", all["openai"].Endpoints[0].String(), "http://127.0.0.1:9/v1"},
		{"its port", all["openai"].Endpoints[0].Port(), 9},
		{"an ordinary provider is its models' vendor", all["openai"].Vendor, true},
		{"a variable inside a text", all["qwen"].Key.Reveal(), "x-secret"},
		{"a provider's own base URL", all["qwen"].Endpoints[0].Path, "/compatible-mode/v1"},
		{"a scheme's own port", all["qwen"].Endpoints[0].Port(), 443},
		{"a provider with quirks has an adapter of its own", all["qwen"].Kind, "qwen"},
		{"the format", all["mine"].Format, config.FormatAnthropic},
		{"the endpoints", len(all["mine"].Endpoints), 2},
		{"env:VAR", all["mine"].Key.Reveal(), "secret"},
		{"privacy", all["mine"].Private, true},
		{"a list of models leaves others out", all["mine"].Any, false},
	} {
		if row.got != row.want {
			t.Errorf("%s: got %v, want %v", row.about, row.got, row.want)
		}
	}
}

// TestD84NobodyPaysASpreadUnlessOneIsSet: D-51's spreads of plans hold where the operator has plans.
func TestD84NobodyPaysASpreadUnlessOneIsSet(t *testing.T) {
	d51 := map[policy.Tier]int{policy.TierFree: 25, policy.TierPro: 15, policy.TierGolem: 10}
	for _, row := range []struct {
		text  string
		usual int
		plans map[policy.Tier]int
	}{
		{"", 0, nil},
		{"billing: {reserve_output_tokens: 100}", 0, nil},
		{"billing: {tiers: {}}", 0, nil},
		{"billing: {spread_pct: 0}", 0, nil},
		{"billing: {spread_pct: 7}", 7, nil},
		{"billing: {tiers: {free: {exclude: [venice]}}}", 0, d51},
		{"billing: {tiers: {free: {}, pro: {spread_pct: 4}}}", 0, map[policy.Tier]int{policy.TierFree: 25, policy.TierPro: 4, policy.TierGolem: 10}},
		{"billing: {spread_pct: 7, tiers: {free: {}, pro: {spread_pct: 0}}}", 7, map[policy.Tier]int{policy.TierPro: 0}}, //nolint:exhaustive // the others pay the usual
	} {
		usual, plans := mustParse(t, row.text).Billing.Spreads()
		if usual != row.usual || !maps.Equal(plans, row.plans) {
			t.Errorf("%s: got %d, %v, want %d, %v", row.text, usual, plans, row.usual, row.plans)
		}
	}
}

// TestD84OnlyPrepaidKeysHaveARateUnlessOneIsSet, which then holds for all.
func TestD84OnlyPrepaidKeysHaveARateUnlessOneIsSet(t *testing.T) {
	for _, row := range []struct {
		text             string
		general, prepaid int
	}{
		{"", 0, 100}, {"limits: {tokens_per_hour: 5}", 0, 100}, {"limits: {rpm: 0}", 0, 0}, {"limits: {rpm: 7}", 7, 7},
	} {
		cfg := mustParse(t, row.text)
		if general, prepaid := cfg.Limits.Rates(); general != row.general || prepaid != row.prepaid {
			t.Errorf("%s: got %d and %d, want %d and %d", row.text, general, prepaid, row.general, row.prepaid)
		}
	}
}

func TestVariablesStandOverTheFile(t *testing.T) {
	cfg := mustParse(t, "billing: {spread_pct: 5}\nrouting: {max_retries: 1}", "BARDO_INFERENCE_SPREAD_PCT=7", "BARDO_INFERENCE_MAX_RETRIES=0", "BARDO_INFERENCE_URL=https://bardo.example.com")
	if usual, _ := cfg.Billing.Spreads(); usual != 7 || cfg.Routing.MaxRetries != 0 || cfg.Listen.PublicURL.String() != "https://bardo.example.com" {
		t.Errorf("got %d, %d, %s", usual, cfg.Routing.MaxRetries, cfg.Listen.PublicURL)
	}
}

func TestOlderVariablesNameModelsAndKeys(t *testing.T) {
	cfg := mustParse(t, "", "BARDO_T1_MODEL=blockrun/claude-haiku-4-5", "BARDO_T2_MODEL=claude-sonnet-4", "BARDO_INFERENCE_CACHE_THRESHOLD=0.95", "BARDO_INFERENCE_CACHE_TTL=60", "BARDO_OPENROUTER_KEY=sk", "BANKR_API_KEY=k", "BANKR_WALLET_ADDRESS=0x1", "BARDO_BLOCKRUN_ENDPOINT=https://api.blockrun.example")
	if c := cfg.Inference.Caching; cfg.Inference.Tiers["T2"].Provider != "claude-sonnet-4" || c.Threshold != 0.95 || c.TTL() != time.Minute {
		t.Errorf("got %+v, %+v", cfg.Inference.Tiers, c)
	}
	if cfg.Inference.Tiers["T1"].Provider != "blockrun/claude-haiku-4-5" || cfg.Providers.OpenRouter.APIKey.Reveal() != "sk" || cfg.Providers.Bankr.Wallet != "0x1" ||
		cfg.Providers.BlockRun.Endpoint.String() != "https://api.blockrun.example/v1" {
		t.Errorf("got %+v, %+v, %+v, %+v", cfg.Inference.Tiers, cfg.Providers.OpenRouter, cfg.Providers.Bankr, cfg.Providers.BlockRun)
	}
}

func TestVariablesAreNamedInProblems(t *testing.T) {
	for _, row := range []struct{ variable, want string }{
		{"BARDO_INFERENCE_SPREAD_PCT=much", `BARDO_INFERENCE_SPREAD_PCT: billing.spread_pct: "much": not a whole number, expected a whole number from 0 to 1000`},
		{"BARDO_INFERENCE_CACHE_THRESHOLD=2", "BARDO_INFERENCE_CACHE_THRESHOLD: inference.caching.threshold: \"2\": out of range, expected a number from 0 to 1"},
	} {
		_, problems := config.Parse("", nil, variables(row.variable), kinds...)
		if got := strings.TrimSpace(lines(problems)); got != row.want {
			t.Errorf("%s: got %q, want %q", row.variable, got, row.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, row := range []struct{ about, file, want string }{
		{"a key over the internet in clear text", "providers: {openai: {api_key: k, base_url: http://api.example/v1}}", "test.yaml:1: providers.openai.base_url: warning: the key goes to api.example without encryption"},
		{"the same for a custom provider", "providers: {custom: [{id: a, api_key: k, endpoints: [http://8.8.8.8/v1]}]}", "test.yaml:1: providers.custom[0].endpoints[0]: warning: the key goes to 8.8.8.8 without encryption"},
		{"not within the operator's network", "providers: {custom: [{id: a, api_key: k, endpoints: [http://10.0.0.1/v1]}, {id: b, api_key: k, endpoints: [http://vllm:8000/v1]}]}", ""},
		{"a key that is not built", "providers: {venice: {api_key: k, max_retries: 1}}", "test.yaml:1: providers.venice.max_retries: warning: accepted, but this version does not act on it"},
	} {
		t.Run(row.about, func(t *testing.T) {
			cfg, problems := config.Parse("test.yaml", []byte(row.file), variables(), kinds...)
			if got := strings.TrimSpace(lines(problems)); got != row.want || cfg == nil {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestExpansion(t *testing.T) {
	for _, row := range []struct{ about, text, want string }{
		{"a variable", "/etc/${NAME}.yaml", "/etc/x.yaml"},
		{"twice", "${NAME}${NAME}", "xx"},
		{"an escaped one", "$${NAME}", "${NAME}"},
		{"a dollar alone", "$NAME $", "$NAME $"},
		{"env: is for secrets only", "env:NAME", "env:NAME"},
	} {
		t.Run(row.about, func(t *testing.T) {
			cfg := mustParse(t, "models: {catalog: '"+row.text+"'}", "NAME=x")
			if got := cfg.Models.Catalog; got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// The value of a variable never appears in a problem, and a secret in no form of printing.
func TestSecretsDoNotShow(t *testing.T) {
	const hidden = "hunter2"
	_, problems := config.Parse("f.yaml", []byte(`providers: {openai: {api_key: k, base_url: "${U}"}, custom: [{id: a, endpoints: ["https://u:hunter2@h/v1"]}]}`), variables("U="+hidden), kinds...)
	if got := lines(problems); strings.Contains(got, hidden) || len(problems) != 2 {
		t.Errorf("problems show it: %s", got)
	}
	s := secret.New(hidden)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(verb, struct{ S config.Secret }{s}); strings.Contains(got, hidden) || strings.Contains(got, fmt.Sprintf("%x", hidden)) {
			t.Errorf("%s shows it: %s", verb, got)
		}
	}
	if got, _ := json.Marshal(s); string(got) != `"***"` {
		t.Errorf("JSON shows it: %s", got)
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[config.Addr]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "": true,
		"0.0.0.0:1": false, ":1": false, "[::]:1": false, "10.0.0.1:1": false, "example.com:1": false,
	} {
		if addr.Loopback() != want {
			t.Errorf("%q: got %v", addr, !want)
		}
	}
}

func TestSchema(t *testing.T) {
	byKey := map[string]config.Field{}
	for _, f := range config.Schema(kinds...) {
		if f.Doc == "" || f.Type == "" {
			t.Errorf("%s is not documented", f.Key)
		}
		if _, twice := byKey[f.Key]; twice {
			t.Errorf("%s is listed twice", f.Key)
		}
		byKey[f.Key] = f
	}
	for _, want := range []config.Field{
		{Key: "routing.timeouts.connect", Type: "a duration such as 30s or 5m", Default: "5s", Doc: "To connect to a provider.", Built: true},
		{Key: "limits.overage", Type: "deny or bill", Default: "deny", Doc: "What happens beyond tokens_per_hour: deny refuses requests until the next hour; bill serves them, and their callers pay for them as for others.", Built: true},
		{Key: "providers.custom[].models[].price.input", Type: "USD per million tokens such as 0.25", Doc: "Input tokens.", Built: true},
		{Key: "pipeline.hash", Type: "on, off or all", Default: "on", Doc: byKey["pipeline.hash"].Doc, Built: true},
		{Key: "store.vectors", Type: "memory or postgres://user@host/database", Default: "memory", Doc: byKey["store.vectors"].Doc, Built: true},
		{Key: "providers.venice.max_retries", Type: "any", Doc: "Retries of Venice's client; use routing.max_retries."},
	} {
		if got := byKey[want.Key]; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// Every default in the schema is a value that the schema accepts.
func TestDefaultsAreValid(t *testing.T) {
	for _, f := range config.Schema(kinds...) {
		if f.Default == "" || strings.ContainsAny(f.Key, "[*") {
			continue
		}
		path := strings.Split(f.Key, ".")
		text := strconv.Quote(f.Default)
		for _, name := range slices.Backward(path) {
			text = "{" + name + ": " + text + "}"
		}
		_, problems := config.Parse("test.yaml", []byte(text), usual, kinds...)
		problems = slices.DeleteFunc(problems, func(p config.Problem) bool { return p.Key != f.Key }) // a key that another one requires is missing
		if config.Failed(problems) {
			t.Errorf("%s: %s", f.Key, lines(problems))
		}
	}
}

func TestParseModels(t *testing.T) {
	file, problems := config.ParseModels("models.toml", []byte("source = \"me\"\nas_of = \"2026-01-01\"\n[[models]]\nid = \"m\"\nprice = {input = 0.1, output = 0.2}\n"))
	if len(problems) > 0 || file.Source != "me" || len(file.Models) != 1 || *file.Models[0].Price.Output != 200_000 {
		t.Errorf("got %+v, %s", file, lines(problems))
	}
	if _, problems = config.ParseModels("models.yaml", []byte("models: [{id: m, prize: 1}]")); lines(problems) != "models.yaml:1: models[0].prize: unknown key, expected price\n" {
		t.Errorf("got %s", lines(problems))
	}
}

// Any bytes result in a configuration or a problem, never a panic, and Parse reads what Print writes.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "limits: {rpm: 1}", "providers: {custom: [{id: a, endpoints: [http://h/v1]}]}", "[limits]\nrpm = 1", "a: &b [*b]", "? a\n: b", "\t", "[[providers.custom]]\nid='a'\n[providers.custom.x]"} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, toml bool) {
		name := "fuzz.yaml"
		if toml {
			name = "fuzz.toml"
		}
		cfg, problems := config.Parse(name, data, usual, kinds...)
		if (cfg == nil) != config.Failed(problems) {
			t.Fatalf("configuration %v with %s", cfg, lines(problems))
		}
		for _, p := range problems {
			if p.File == "" || p.Message == "" || p.Line < 0 {
				t.Fatalf("an empty problem: %+v", p)
			}
		}
		if cfg == nil {
			return
		}
		printed := config.Print(cfg)
		again, problems := config.Parse("printed.yaml", printed, variables(), kinds...)
		if again == nil || !bytes.Equal(config.Print(again), printed) {
			t.Fatalf("%s\n%s", lines(problems), printed)
		}
	})
}

// TestTheMinimumOfCreditConfiguresNoProvider: the variable applies to a configured Venice, and does not configure it.
func TestTheMinimumOfCreditConfiguresNoProvider(t *testing.T) {
	const variable = "VVV_STAKING_MIN_CREDIT_THRESHOLD=50"
	if cfg := mustParse(t, "", variable); cfg.Providers.Venice != nil || cfg.Providers.Venice.LowCredit() {
		t.Errorf("Venice is configured: %+v", cfg.Providers.Venice)
	}
	for file, low := range map[string]bool{
		"providers: {venice: {api_key: k}}":                             false, // its credit is unknown
		"providers: {venice: {api_key: k, credit: 50}}":                 false,
		"providers: {venice: {api_key: k, credit: 49.9}}":               true,
		"providers: {venice: {api_key: k, credit: 75}}":                 false,
		"providers: {venice: {api_key: k, credit: 49, min_credit: 20}}": true, // the variable overrides the file
	} {
		if cfg := mustParse(t, file, variable); cfg.Providers.Venice.MinCredit != 50 || cfg.Providers.Venice.LowCredit() != low {
			t.Errorf("%s: %+v", file, cfg.Providers.Venice)
		}
	}
	if cfg := mustParse(t, "", variable, "VENICE_API_KEY=k"); cfg.Providers.Venice.MinCredit != 50 {
		t.Errorf("%+v", cfg.Providers.Venice)
	}
}
