package resolve_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/resolve"
)

// made returns a resolver of a configuration with its own catalog.
func made(t testing.TB, models, text string) *resolve.Resolver {
	t.Helper()
	file, problems := config.ParseModels("models.yaml", []byte("models:\n"+models))
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	file.Vendors = catalogtest.Embedded().Vendors
	cfg, problems := config.Parse("config.yaml", []byte(text), func(string) (string, bool) { return "", false }, kinds...)
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	return resolverOf(catalog.New(file), cfg)
}

// of is the intent of a subsystem, changed.
func of(subsystem string, change func(*policy.Intent)) *policy.Intent {
	in := intent.Of(subsystem)
	if change != nil {
		change(&in)
	}
	return &in
}

type decideCase struct {
	about string
	rules resolve.Rules
	in    *policy.Intent
	want  string // how the order begins, or the fault
}

// generalT1 is the order for a heartbeat of tier T1, which goes to no specialist.
const generalT1 = "blockrun/gemini-3-flash; openrouter/gemini-3-flash; blockrun/claude-sonnet-4-6 lacks low_effort; openrouter/qwen-plus; direct/local/qwen3-7b lacks low_effort"

var decideCases = []decideCase{
	{"a general query never goes to a specialist", resolve.Rules{}, of("heartbeat_t1", nil), generalT1},
	{
		"while staked credit pays, all goes to Venice",
		resolve.Rules{},
		of("heartbeat_t1", func(in *policy.Intent) { in.DIEM = true }), "venice/llama-3.3-70b lacks low_effort; blockrun/gemini-3-flash;",
	},
	{
		"the operator's model for a tier comes first",
		resolve.Rules{},
		of("heartbeat_t2", func(in *policy.Intent) { in.First = "bankr/claude-sonnet-4-6" }), "bankr/claude-sonnet-4-6 lacks interleaved_thinking; blockrun/claude-opus-4-6;",
	},
	{
		"a tier's model that does not exist changes nothing",
		resolve.Rules{},
		of("heartbeat_t1", func(in *policy.Intent) { in.First = "blockrun/nobody" }), generalT1,
	},
	{
		"a tier's model may not cost what nothing may",
		resolve.Rules{},
		of("heartbeat_t0", func(in *policy.Intent) { in.First = "blockrun/claude-opus-4-6" }), "direct/local/qwen3-7b; blockrun/nvidia-gpt-oss-120b",
	},
	{"D-04: a wallet serves its parts of an agent", resolve.Rules{}, of("social", nil), "bankr/claude-sonnet-4-6 lacks low_effort; blockrun/gemini-3-flash;"},
	{
		"its tier's model stands behind it",
		resolve.Rules{},
		of("social", func(in *policy.Intent) { in.First = "blockrun/claude-opus-4-6" }), "bankr/claude-sonnet-4-6 lacks low_effort; blockrun/gemini-3-flash;",
	},
	{
		"D-12: what is private goes to those that retain nothing, or to nobody",
		resolve.Rules{},
		of("risk", func(in *policy.Intent) { in.Security = policy.SecurityPrivate }), "venice/deepseek-r1 lacks interleaved_thinking, citations$",
	},
	{
		"D-12: also under the mode that leaves Venice out",
		resolve.Rules{Mode: resolve.ModeBardo},
		of("risk", func(in *policy.Intent) { in.Security = policy.SecurityPrivate }), "venice/deepseek-r1 lacks interleaved_thinking, citations$",
	},
	{
		"D-12: a model that no private provider has",
		resolve.Rules{},
		of("risk", func(in *policy.Intent) { in.Security, in.Model = policy.SecurityPrivate, "claude-opus-4-6" }), "no_private_provider",
	},
	{
		"D-12: a sealed task goes to nobody where nobody seals",
		resolve.Rules{},
		of("risk", func(in *policy.Intent) { in.PrivacyTier = policy.PrivacyEndToEnd }), "no_private_provider",
	},
	{
		"D-12: unless the operator says that it may",
		resolve.Rules{Exhausted: resolve.ContinueE2E},
		of("risk", func(in *policy.Intent) { in.PrivacyTier = policy.PrivacyEndToEnd }), "venice/deepseek-r1 lacks interleaved_thinking, citations, privacy_tier;",
	},
	{
		"D-12: a task of an enclave goes on without one, and that is named",
		resolve.Rules{},
		of("heartbeat_t2", func(in *policy.Intent) { in.PrivacyTier = policy.PrivacyTEE }), "venice/deepseek-r1 lacks interleaved_thinking, citations, privacy_tier; blockrun/claude-opus-4-6 lacks privacy_tier;",
	},
	{
		"D-12: or fails, where the operator says so",
		resolve.Rules{Exhausted: resolve.Fail},
		of("heartbeat_t2", func(in *policy.Intent) { in.PrivacyTier = policy.PrivacyTEE }), "no_private_provider",
	},
	{"D-28: everything to Venice", resolve.Rules{Mode: resolve.ModeVenice}, of("heartbeat_t1", nil), "venice/llama-3.3-70b lacks low_effort$"},
	{"D-28: nothing to Venice", resolve.Rules{Mode: resolve.ModeBardo}, of("daimon", nil), "blockrun/gemini-3-flash lacks privacy;"},
	{"D-28: what only prefers privacy does not go to Venice in both", resolve.Rules{Mode: resolve.ModeBoth}, of("daimon", nil), "blockrun/gemini-3-flash lacks privacy;"},
	{
		"D-28: what wants an enclave does",
		resolve.Rules{Mode: resolve.ModeBoth},
		of("daimon", func(in *policy.Intent) { in.PrivacyTier = policy.PrivacyTEE }), "venice/llama-3.3-70b lacks privacy_tier; blockrun/gemini-3-flash lacks privacy, privacy_tier;",
	},
	{
		"D-12: without credit it continues elsewhere",
		resolve.Rules{Mode: resolve.ModeBoth, LowCredit: true},
		of("daimon", func(in *policy.Intent) { in.PrivacyTier = policy.PrivacyTEE }), "blockrun/gemini-3-flash lacks privacy, privacy_tier;",
	},
	{
		"D-12: what is private stays with Venice without credit too",
		resolve.Rules{Mode: resolve.ModeBoth, LowCredit: true},
		of("daimon", func(in *policy.Intent) { in.PrivacyTier, in.Security = policy.PrivacyTEE, policy.SecurityPrivate }), "venice/llama-3.3-70b lacks privacy_tier",
	},
	{"D-28: dreams have a provider of their own", resolve.Rules{Mode: resolve.ModeBoth, Dreams: "venice"}, of("dream", nil), "venice/deepseek-r1;"},
	{"D-28: or stay away from Venice", resolve.Rules{Dreams: "bardo"}, of("dream", nil), "blockrun/deepseek-r1 lacks privacy;"},
	{
		"a caller's plan leaves providers out",
		resolve.Rules{},
		of("daimon", func(in *policy.Intent) { in.Barred = []policy.ProviderID{"venice", "bankr", "direct"} }), "blockrun/gemini-3-flash lacks privacy;",
	},
	{
		"a plan without users' own keys",
		resolve.Rules{},
		of("playbook", func(in *policy.Intent) { in.Barred = []policy.ProviderID{"direct"} }), "blockrun/claude-sonnet-4-6 lacks predicted_outputs;",
	},
	{
		"a plan without the only provider of a model",
		resolve.Rules{},
		&policy.Intent{Model: "llama-3.3-70b", Barred: []policy.ProviderID{"venice"}}, "key_restricted",
	},
	{"D-01: a native feature that is required is served by the vendors' own keys first", resolve.Rules{}, of("risk", func(in *policy.Intent) { in.Require = []policy.Feature{policy.BatchAPI} }), "direct/openai/gpt-5.4 lacks interleaved_thinking, citations; direct/anthropic/claude-sonnet-4-6 lacks interleaved_thinking; blockrun/claude-opus-4-6 lacks batch_api"},
	{"a window that is too small", resolve.Rules{}, of("heartbeat_t1", func(in *policy.Intent) { in.InputTokens = 1_040_000; in.OutputTokens = 4000 }), "blockrun/gemini-3-flash; openrouter/gemini-3-flash$"},
	{"a request that is too long for all", resolve.Rules{}, of("heartbeat_t1", func(in *policy.Intent) { in.InputTokens = 9_000_000 }), "no_provider"},
	{"images", resolve.Rules{}, of("context", func(in *policy.Intent) { in.Images = true }), "blockrun/claude-sonnet-4-6 lacks low_effort; openrouter/gemini-3-flash$"},
	{"a model that is named, at each provider that has it", resolve.Rules{}, of("risk", func(in *policy.Intent) { in.Model = "claude-opus-4.6" }), "blockrun/claude-opus-4-6; openrouter/claude-opus-4-6; bankr/claude-opus-4-6$"},
	{"a specialist first, for a model that is named", resolve.Rules{}, of("operator", func(in *policy.Intent) { in.Model = "claude-opus-4-6" }), "bankr/claude-opus-4-6; blockrun/claude-opus-4-6; openrouter/claude-opus-4-6$"},
	{"a provider that is named", resolve.Rules{}, of("risk", func(in *policy.Intent) { in.Provider = "venice" }), "venice/deepseek-r1 lacks interleaved_thinking, citations$"},
	{"a provider and a model", resolve.Rules{}, &policy.Intent{Model: "direct/openai/gpt-5.4"}, "direct/openai/gpt-5.4$"},
	{"a model that is named is served, however slow", resolve.Rules{}, of("daimon", func(in *policy.Intent) { in.Model = "blockrun/deepseek-r1" }), "blockrun/deepseek-r1 lacks privacy$"},
	{"what runs on rules pays for no model that is named", resolve.Rules{}, of("heartbeat_t0", func(in *policy.Intent) { in.Model = "claude-opus-4-6" }), "t0_has_no_model"},
	{"a model that nobody knows", resolve.Rules{}, of("risk", func(in *policy.Intent) { in.Model = "claude-opus-4-5" }), "model_not_found"},
	{"D-11: what is required and nowhere there is named", resolve.Rules{}, of("death", func(in *policy.Intent) { in.Require = []policy.Feature{policy.VisibleThinking, policy.WebSearch} }), "venice/deepseek-r1 lacks web_search;"},
}

func TestDecideOnTheFullStack(t *testing.T) {
	f := readFixture(t, "full")
	for _, row := range decideCases {
		t.Run(row.about, func(t *testing.T) { checkDecision(t, f.WithRules(row.rules), &row) })
	}
}

func checkDecision(t *testing.T, r *resolve.Resolver, row *decideCase) {
	t.Helper()
	d := r.Decide(row.in)
	got := ways(d.Order)
	if d.Err != nil {
		got = string(fault.From(d.Err).Kind)
	}
	if want, whole := strings.CutSuffix(row.want, "$"); whole && got != want || !strings.HasPrefix(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s\n%v", got, row.want, d.Err)
	}
}

const three = `
  - {id: plain, family: a, price: {input: 1, output: 1}, capabilities: [], quality: high, reasoning: none, max_output: 1000}
  - {id: tooled, family: b, price: {input: 2, output: 2}, capabilities: [tools], quality: high, reasoning: none}
  - {id: thinker, family: c, price: {input: 3, output: 3}, capabilities: [structured_outputs, vision], quality: high, reasoning: auto}
  - {id: unknown, family: d, price: {input: 4, output: 4}, reasoning: none}
`

// In the strict pass an effort requires a model that reasons, and a schema one that enforces it or calls tools (D-11).
func TestD11TheStrictPass(t *testing.T) {
	r := made(t, three, "providers: {custom: [{id: p, endpoints: [http://localhost:1/v1], models: [{id: plain}, {id: tooled}, {id: thinker}, {id: unknown}]}]}")
	for _, row := range []struct {
		about, want string
		change      func(*policy.Intent)
	}{
		{"the cheapest", "p/plain", func(*policy.Intent) {}},
		{"high effort", "p/thinker", func(in *policy.Intent) { in.Effort = policy.EffortHigh }},
		{"the greatest effort", "p/thinker", func(in *policy.Intent) { in.Effort = policy.EffortMax }},
		{"middling effort", "p/plain", func(in *policy.Intent) { in.Effort = policy.EffortMedium }},
		{"a schema", "p/tooled", func(in *policy.Intent) { in.Schema = true }},
		{"tools", "p/tooled", func(in *policy.Intent) { in.Tools = true }},
		{"images", "p/thinker", func(in *policy.Intent) { in.Images = true }},
		{"images and tools: one of which nothing is known", "p/unknown", func(in *policy.Intent) { in.Images, in.Tools = true, true }},
		{"a longer answer than a model gives", "p/tooled", func(in *policy.Intent) { in.OutputTokens = 2000 }},
		{"a quality that nobody has: the nearest", "p/plain", func(in *policy.Intent) { in.Quality = policy.QualityMaximum }},
	} {
		t.Run(row.about, func(t *testing.T) {
			in := &policy.Intent{Subsystem: "curator", Quality: policy.QualityMedium, CostSensitivity: 0.5}
			row.change(in)
			d := r.Decide(in)
			if d.Err != nil || !strings.HasPrefix(ways(d.Order), row.want) {
				t.Errorf("got %s, %v", ways(d.Order), d.Err)
			}
		})
	}
}

// The relaxed pass doubles the latency bound, and saturates.
func TestD11ABoundOfTime(t *testing.T) {
	r := made(t, "  - {id: slow, latency_p50_ms: 3000}", "providers: {custom: [{id: p, endpoints: [http://localhost:1/v1], models: [{id: slow}]}]}")
	for _, row := range []struct {
		bound  time.Duration
		served bool
	}{{0, true}, {time.Second, false}, {1500 * time.Millisecond, true}, {3 * time.Second, true}, {1<<63 - 1, true}} {
		d := r.Decide(&policy.Intent{Subsystem: "curator", MaxLatency: row.bound})
		if got := d.Err == nil; got != row.served {
			t.Errorf("within %s: %v", row.bound, d.Err)
		}
	}
}

// A specialist without other providers serves everything.
func TestASpecialistAloneServesEverything(t *testing.T) {
	for _, text := range []string{
		"{venice: {base_url: https://v.test/v1, api_key: x, models: [{id: plain}]}}",
		"{bankr: {endpoint: https://b.test/v1, api_key: x, models: [{id: plain}]}}",
	} {
		r := made(t, three, "providers: "+text)
		if d := r.Decide(of("curator", nil)); d.Err != nil || len(d.Order) != 1 {
			t.Errorf("%s: %s, %v", text, ways(d.Order), d.Err)
		}
	}
}

// P-12: the maximum cost of a request is a tenth of the balance, scaled by revenue over cost.
func TestAWalletSpendsAsItEarns(t *testing.T) {
	for _, row := range []struct {
		about, earnings, subsystem string
		output                     int64 // at 1 USD per million tokens, half of it for input
		served                     bool
	}{
		{"it has earned nothing: ten cents a day", "", "social", 99_000, true},
		{"and no more", "", "social", 101_000, false},
		{"expanding: one and a half times", "revenue_balance_usd: 2, lifetime_revenue_usd: 21, lifetime_cost_usd: 10", "social", 299_000, true},
		{"and no more", "revenue_balance_usd: 2, lifetime_revenue_usd: 21, lifetime_cost_usd: 10", "social", 301_000, false},
		{"nothing was spent yet", "revenue_balance_usd: 2, lifetime_revenue_usd: 1", "social", 299_000, true},
		{"sustainable", "revenue_balance_usd: 2, lifetime_revenue_usd: 20, lifetime_cost_usd: 10", "social", 199_000, true},
		{"and no more", "revenue_balance_usd: 2, lifetime_revenue_usd: 20, lifetime_cost_usd: 10", "social", 201_000, false},
		{"pressed", "revenue_balance_usd: 2, lifetime_revenue_usd: 10, lifetime_cost_usd: 10", "social", 139_000, true},
		{"and no more", "revenue_balance_usd: 2, lifetime_revenue_usd: 10, lifetime_cost_usd: 10", "social", 141_000, false},
		{"contracting", "revenue_balance_usd: 2, lifetime_revenue_usd: 4.9, lifetime_cost_usd: 10", "social", 59_000, true},
		{"and no more", "revenue_balance_usd: 2, lifetime_revenue_usd: 4.9, lifetime_cost_usd: 10", "social", 61_000, false},
		{"D-55: risk is not contracted", "revenue_balance_usd: 2, lifetime_revenue_usd: 4.9, lifetime_cost_usd: 10", "risk", 199_000, true},
		{"an empty wallet affords nothing", "revenue_balance_usd: 0.009, lifetime_revenue_usd: 15, lifetime_cost_usd: 10", "social", 1, false},
	} {
		t.Run(row.about+" "+row.subsystem, func(t *testing.T) {
			r := made(t, "  - {id: m, price: {input: 1, output: 1}}", `
providers:
  bankr: {endpoint: https://b.test/v1, api_key: x, subsystems: [social, risk], models: [{id: m}], `+strings.TrimSuffix(row.earnings+", ", ", ")+`}
`)
			d := r.Explain(of(row.subsystem, func(in *policy.Intent) { in.OutputTokens = row.output }))
			if got := d.Err == nil; got != row.served {
				t.Errorf("served: %v, %+v", got, d.Refused)
			}
		})
	}
}

// B-20: a wallet that would pay but cannot is named, and only then.
func TestAnEmptyWalletIsNamed(t *testing.T) {
	for _, row := range []struct {
		about, balance, model, subsystem string
		unfunded                         policy.ProviderID
	}{
		{"its subsystem", "0", "", "social", "bankr"},
		{"its subsystem, and a model of its own", "0", "m", "social", "bankr"},
		{"its subsystem, and another's model", "0", "n", "social", ""},
		{"another subsystem", "0", "", "curator", ""},
		{"a model of its own that may be paid otherwise", "0", "m", "", ""},
		{"there is enough", "1", "m", "social", ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			r := made(t, "  - {id: m, price: {input: 1, output: 1}}\n  - {id: n, price: {input: 1, output: 1}}", `
providers:
  bankr: {endpoint: https://b.test/v1, api_key: x, models: [{id: m}], lifetime_revenue_usd: 15, revenue_balance_usd: `+row.balance+`}
  custom: [{id: own, endpoints: ["https://o.test/v1"], api_key: y, models: [{id: n}]}]
`)
			d := r.Decide(of(row.subsystem, func(in *policy.Intent) { in.Model = row.model }))
			if d.Unfunded != row.unfunded {
				t.Errorf("%q, candidates %s, %v", d.Unfunded, ways(d.Order), d.Err)
			}
		})
	}
}

// Staked credit pays: the price of this request is zero.
func TestStakedCreditPays(t *testing.T) {
	f := readFixture(t, "full")
	for diem, want := range map[bool]policy.Prices{true: {Known: true}, false: {Input: 550_000, Output: 2_190_000, CachedInput: 550_000, CacheWrite: 550_000, CacheWrite1h: 550_000, Known: true}} {
		d := f.Decide(of("dream", func(in *policy.Intent) { in.DIEM = diem }))
		if d.Err != nil {
			t.Fatal(d.Err)
		}
		d.Order[0].Prices.Origin = nil
		if d.Order[0].Provider != "venice" || !reflect.DeepEqual(d.Order[0].Prices, want) {
			t.Errorf("DIEM %v: %+v, %v", diem, d.Order[0].Prices, d.Err)
		}
	}
}

const everywhere = `
providers:
  order: [direct, bankr, venice, openrouter, mine, blockrun]
  blockrun: {endpoint: https://b.test/v1, api_key: x, models: [{id: gpt-5.4}]}
  openrouter: {endpoint: https://o.test/v1, api_key: x, models: [{id: gpt-5.4}]}
  venice: {base_url: https://v.test/v1, api_key: x, models: [{id: gpt-5.4}]}
  bankr: {endpoint: https://k.test/v1, api_key: x, models: [{id: gpt-5.4}]}
  direct: {keys: [{provider: openai, api_key: x, base_url: https://d.test/v1}]}
  custom: [{id: mine, endpoints: [http://localhost:1/v1], models: [{id: gpt-5.4}]}]
`

func TestD10EqualScoresStandInTheOrderOfBackends(t *testing.T) {
	const m = "  - {id: gpt-5.4, family: gpt, price: {input: 2, output: 2}}"
	d := made(t, m, everywhere).Decide(&policy.Intent{Model: "gpt-5.4", CostSensitivity: 0.5})
	const want = "blockrun/gpt-5.4; mine/gpt-5.4; openrouter/gpt-5.4; bankr/gpt-5.4; venice/gpt-5.4; direct/openai/gpt-5.4"
	if got := ways(d.Order); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	ordered := made(t, m, everywhere+"routing: {strategy: ordered}").Decide(&policy.Intent{Model: "gpt-5.4"})
	if got := string(ordered.Order[0].Provider); got != "openrouter" {
		t.Errorf("the first generalist of the configured order serves, got %s", ways(ordered.Order))
	}
	forced := made(t, m, everywhere+"routing: {strategy: score}").Decide(of("heartbeat_t1", nil))
	if forced.Err != nil || forced.Order[0].Provider != "blockrun" || forced.Order[0].Score <= 0 {
		t.Errorf("got %s, %v", ways(forced.Order), forced.Err)
	}
}

// The scorer chooses among what each provider lists where the model is left to it.
func TestTheScorerChoosesAModel(t *testing.T) {
	f := readFixture(t, "full")
	in := policy.Intent{CostSensitivity: 1, Quality: policy.QualityLow}
	cheap := f.Decide(&in)
	in.CostSensitivity, in.Quality = 0, policy.QualityMaximum
	good := f.Decide(&in)
	if cheap.Err != nil || good.Err != nil {
		t.Fatal(cheap.Err, good.Err)
	}
	for _, d := range []resolve.Decision{cheap, good} {
		for i := range d.Order {
			if s := d.Order[i].Score; s <= 0 || s > 1 {
				t.Errorf("%s scores %v", way(&d.Order[i]), s)
			}
		}
	}
	if a, b := cheap.Order[0].Prices.Output, good.Order[0].Prices.Output; a > b {
		t.Errorf("cheap: %s; good: %s", ways(cheap.Order), ways(good.Order))
	}
	if got := string(good.Order[0].Model); got != "deepseek-r1" {
		t.Errorf("the best for the least: %s", ways(good.Order))
	}
}

func TestNobodyServesWithReasons(t *testing.T) {
	f := readFixture(t, "minimal")
	d := f.Decide(of("daimon", func(in *policy.Intent) { in.MaxLatency = time.Millisecond }))
	var no *fault.Fault
	if !errors.As(d.Err, &no) || no.Kind != fault.NoProvider || !strings.Contains(no.Public, "blockrun: it usually takes 300ms, and 2ms is the most") {
		t.Errorf("got %v", d.Err)
	}
}
