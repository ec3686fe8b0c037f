package resolve_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/resolve"
)

// configured is a resolver for a configuration file, with the embedded catalog.
func configured(t testing.TB, text string) *resolve.Resolver {
	t.Helper()
	cfg, problems := config.Parse("test.yaml", []byte(text), func(string) (string, bool) { return "", false }, kinds...)
	if cfg == nil {
		t.Fatal(problems)
	}
	return resolverOf(catalog.New(catalogtest.Embedded()), cfg)
}

const both = `
providers:
  openai: {api_key: a}
  anthropic: {api_key: b}
  custom:
    - id: vllm
      endpoints: [http://localhost:1/v1]
      models:
        - {id: llama-4, upstream_id: meta-llama/Llama-4}
        - {id: gpt-4o, upstream_id: my-gpt, price: {input: 0, output: 0}}
        - {id: openai/gpt-oss-20b, aliases: [gpt-oss]}
        - {id: claude-sonnet-4-5-20250929}
    - {id: any, endpoints: [http://localhost:2/v1]}
`

// said writes resolutions as "provider: model > upstream".
func said(res []policy.Resolution) string {
	out := make([]string, len(res))
	for i, r := range res {
		out[i] = string(r.Provider) + ": " + string(r.Model)
		if r.Upstream != string(r.Model) {
			out[i] += " > " + r.Upstream
		}
	}
	return strings.Join(out, "; ")
}

func TestResolve(t *testing.T) {
	r := configured(t, both)
	for _, row := range []struct {
		about, model, provider, want string
	}{
		{"the vendor serves its model", "claude-opus-4-6", "", "anthropic: claude-opus-4-6"},
		{"K-89: another spelling goes out as the vendor spells it", "claude-opus-4.6", "", "anthropic: claude-opus-4-6"},
		{"a snapshot goes out as the client wrote it", "gpt-4.1-2025-04-14", "", "openai: gpt-4.1-2025-04-14"},
		{"a snapshot with a dot goes out with a dash", "claude-haiku-4.5-20251001", "", "anthropic: claude-haiku-4-5-20251001"},
		{"an alias goes out as the model", "claude-sonnet-4", "", "anthropic: claude-sonnet-4-0"},
		{"a snapshot of an alias goes out as it is", "claude-sonnet-4-20250514", "", "anthropic: claude-sonnet-4-20250514"},
		{"two providers, in the configured order", "gpt-4o", "", "openai: gpt-4o; vllm: gpt-4o > my-gpt"},
		{"a custom provider knows a snapshot by its one name", "gpt-4o-2024-08-06", "", "openai: gpt-4o-2024-08-06; vllm: gpt-4o > my-gpt"},
		{"a vendor joins a snapshot that another one lists", "claude-sonnet-4-5-20250929", "", "anthropic: claude-sonnet-4-5-20250929; vllm: claude-sonnet-4-5-20250929"},
		{"a custom model has its upstream name", "llama-4", "", "vllm: llama-4 > meta-llama/Llama-4"},
		{"a provider is forced by a prefix", "vllm/gpt-4o", "", "vllm: gpt-4o > my-gpt"},
		{"a provider is forced by name", "gpt-4o", "openai", "openai: gpt-4o"},
		{"an id with a slash stays whole where the provider does not list the rest", "openai/gpt-oss-20b", "", "vllm: openai/gpt-oss-20b"},
		{"an alias of an id with a slash", "gpt-oss", "", "vllm: openai/gpt-oss-20b"},
		{"an unknown id goes by its prefix", "gpt-99", "", "openai: gpt-99"},
		{"an unknown id without prefix goes to who takes any", "meta-llama/llama-3", "", "any: meta-llama/llama-3"},
		{"a known model of no enabled vendor goes to who takes any", "gemini-2.5-pro", "", "any: gemini-2.5-pro"},
		{"who takes any can be forced", "any/claude-opus-4-6", "", "any: claude-opus-4-6"},
		{"a forced vendor takes an id that nobody else claims", "openai/my-tune", "", "openai: my-tune"},
	} {
		t.Run(row.about, func(t *testing.T) {
			res, err := r.Resolve(row.model, row.provider)
			if err != nil {
				t.Fatal(err)
			}
			if got := said(res); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	const one = `providers: {anthropic: {api_key: b}, custom: [{id: vllm, endpoints: [http://localhost:1/v1], models: [{id: llama-4}]}]}`
	r := configured(t, one)
	for _, row := range []struct {
		about, model, provider string
		kind                   fault.Kind
		public                 string
	}{
		{"an unknown model, with the one that was meant", "claude-sonet-5", "vllm", fault.ModelNotFound, `the model "claude-sonet-5" does not exist at vllm`},
		{"near names", "llama-5", "", fault.ModelNotFound, `the model "llama-5" does not exist; did you mean llama-4?`},
		{"nothing is near", "zzz", "", fault.ModelNotFound, `the model "zzz" does not exist; GET /v1/models lists those that do`},
		{"a misspelled provider", "vlm/llama-4", "", fault.ModelNotFound, `the model "vlm/llama-4" does not exist; did you mean llama-4?`},
		{"an empty id", "", "", fault.ModelNotFound, `the model "" does not exist; GET /v1/models lists those that do`},
		{"a known model that nobody serves", "gpt-4o", "", fault.ModelNotFound, `the model "gpt-4o" is served by openai, which is not configured: set OPENAI_API_KEY, or providers.openai in the configuration`},
		{"a known provider that is not enabled", "openai/gpt-4o", "", fault.ModelNotFound, `the model "gpt-4o" is served by openai, which is not configured: set OPENAI_API_KEY, or providers.openai in the configuration`},
		{"a forced provider that is not enabled", "gpt-4o", "openai", fault.ModelNotFound, `the model "gpt-4o" is served by openai, which is not configured: set OPENAI_API_KEY, or providers.openai in the configuration`},
		{"one of two variables", "gemini-2.5-pro", "", fault.ModelNotFound, `the model "gemini-2.5-pro" is served by google, which is not configured: set GOOGLE_API_KEY or GEMINI_API_KEY, or providers.google in the configuration`},
		{"one that no variable enables", "blockrun/x", "", fault.ModelNotFound, `the model "x" is served by blockrun, which is not configured: set providers.blockrun in the configuration`},
		{"a new model of a vendor", "gpt-99", "", fault.ModelNotFound, `the model "gpt-99" is served by openai, which is not configured: set OPENAI_API_KEY, or providers.openai in the configuration`},
		{"a forced provider that nobody knows", "gpt-4o", "nosuch", fault.ModelNotFound, `the provider "nosuch" is not configured; the providers are anthropic, vllm`},
		{"another vendor's model at a forced vendor", "anthropic/gpt-4o", "", fault.ModelNotFound, `the model "gpt-4o" does not exist at anthropic`},
		{"another vendor's prefix at a forced vendor", "gpt-99", "anthropic", fault.ModelNotFound, `the model "gpt-99" does not exist at anthropic`},
		{"a model that the forced custom provider does not list", "vllm/llama-5", "", fault.ModelNotFound, `the model "llama-5" does not exist at vllm; did you mean llama-4?`},
		{"a very long id is cut", strings.Repeat("é", 1000), "", fault.ModelNotFound, `the model "` + strings.Repeat("é", 50) + `…" does not exist; GET /v1/models lists those that do`},
	} {
		t.Run(row.about, func(t *testing.T) {
			res, err := r.Resolve(row.model, row.provider)
			var f *fault.Fault
			if !errors.As(err, &f) {
				t.Fatalf("got %q and %v, want a fault", said(res), err)
			}
			if f.Kind != row.kind || f.Public != row.public {
				t.Errorf("got %s %q, want %s %q", f.Kind, f.Public, row.kind, row.public)
			}
		})
	}
}

func TestDemoServesAnyModelForNothing(t *testing.T) {
	r := configured(t, "")
	for _, id := range []string{"demo", "demo/x", "claude-opus-4-6", "anthropic/claude-opus-4-6", "whatever"} {
		res, err := r.Resolve(id, "")
		if err != nil || len(res) != 1 || res[0].Provider != config.Demo {
			t.Fatalf("%s: got %q, %v", id, said(res), err)
		}
		if got := res[0].Prices; !reflect.DeepEqual(got, policy.Prices{Known: true}) {
			t.Errorf("%s costs %+v", id, got)
		}
	}
	if got := r.Models(); len(got) != 1 || got[0].ID != "demo" {
		t.Errorf("it lists %v", got)
	}
}

func TestResolutionData(t *testing.T) {
	const search = 10_000_000_000 // a cent
	r := configured(t, both)
	for _, row := range []struct {
		about, model string
		prices       policy.Prices
		context      int
	}{
		{"the catalog's", "claude-opus-4-5", policy.Prices{Input: 5e6, Output: 25e6, CachedInput: 5e5, CacheWrite: 6_250_000, CacheWrite1h: 10e6, PerSearch: search, Known: true, SearchKnown: true}, 200_000},
		{"the configuration's over the catalog's", "vllm/gpt-4o", policy.Prices{CachedInput: 1_250_000, Known: true}, 128_000},
		{"the default", "vllm/llama-4", catalog.DefaultPrices, 0},
		{"the default for an id that nobody knows", "gpt-99", catalog.DefaultPrices, 0},
		{"a snapshot has its model's", "gpt-4.1-2025-04-14", policy.Prices{
			Input: 2e6, Output: 8e6, CachedInput: 5e5, CacheWrite: 2e6, CacheWrite1h: 2e6, PerSearch: search, Known: true, SearchKnown: true,
			Tiers: map[string]policy.Prices{"priority": {
				Input: 35e5, Output: 14e6, CachedInput: 875e3, CacheWrite: 35e5, CacheWrite1h: 35e5, PerSearch: search, Known: true, SearchKnown: true,
			}},
		}, 1_047_576},
	} {
		t.Run(row.about, func(t *testing.T) {
			res, err := r.Resolve(row.model, "")
			if err != nil {
				t.Fatal(err)
			}
			if res[0].Prices.Origin = nil; !reflect.DeepEqual(res[0].Prices, row.prices) || res[0].Context != row.context {
				t.Errorf("got %+v", res[0])
			}
		})
	}
}

func TestAdaptiveThinkingComesFromTheCatalog(t *testing.T) {
	r := configured(t, both)
	for model, want := range map[string]bool{"claude-opus-4-6": true, "claude-opus-4.6": true, "claude-opus-4-5": false, "claude-opus-4-5-20251101": false} {
		res, err := r.Resolve(model, "")
		if err != nil || res[0].AdaptiveThinking != want {
			t.Errorf("%s: got %+v, %v", model, res, err)
		}
	}
}

func TestStructuredOutputsComeFromTheCatalog(t *testing.T) {
	r := configured(t, both)
	for model, want := range map[string]bool{"claude-haiku-4-5": true, "claude-opus-4-1": false, "gpt-4o": true} {
		res, err := r.Resolve(model, "")
		if err != nil || res[0].StructuredOutputs != want {
			t.Errorf("%s: got %+v, %v", model, res, err)
		}
	}
}

func TestK16WhoseSignaturesAModelKnows(t *testing.T) {
	r := configured(t, `
providers:
  anthropic: {api_key: a}
  openai: {api_key: b}
  custom:
    - id: mine
      format: anthropic
      endpoints: [http://localhost:1/v1]
      models: [{id: best}, {id: glm, family: glm}, {id: coder, upstream_id: qwen3-coder-plus}, {id: claude-haiku-4-5, upstream_id: org/qwen9}, {id: us.anthropic.claude-opus-4-1-v1:0}, {id: cloud, upstream_id: eu.anthropic.claude-next}]
`)
	for model, want := range map[string]bool{
		"claude-sonnet-4-5": false, "claude-next": false, "gpt-4o": true, "o9": true,
		"best": false, "glm": true, "coder": true, "mine/claude-haiku-4-5": true, "us.anthropic.claude-opus-4-1-v1:0": false, "cloud": false,
	} {
		res, err := r.Resolve(model, "")
		if err != nil || res[0].NoSignatures != want {
			t.Errorf("%s: got %+v, %v", model, res, err)
		}
	}
}

func TestD24FixedSamplingComesFromTheCatalog(t *testing.T) {
	r := configured(t, both)
	for model, want := range map[string]bool{
		"o3": true, "o4-mini-2025-04-16": true, "gpt-5-mini": true, "gpt-5.2": false, "gpt-5-chat-latest": false, "gpt-4o": false,
	} {
		res, err := r.Resolve(model, "")
		if err != nil || res[0].FixedSampling != want {
			t.Errorf("%s: got %+v, %v", model, res, err)
		}
	}
}

func TestResultIsTheCallers(t *testing.T) {
	r := configured(t, both)
	first, _ := r.Resolve("gpt-4o", "")
	first[0].Upstream = "changed"
	if second, _ := r.Resolve("gpt-4o", ""); second[0].Upstream != "gpt-4o" {
		t.Errorf("a caller's change reached the resolver: %q", said(second))
	}
}

func TestModels(t *testing.T) {
	r := configured(t, both)
	models := r.Models()
	if !slices.IsSortedFunc(models, func(a, b resolve.Offer) int { return strings.Compare(string(a.ID), string(b.ID)) }) {
		t.Error("the listing is not sorted")
	}
	who := map[policy.ModelID][]policy.ProviderID{}
	for _, m := range models {
		if _, twice := who[m.ID]; twice {
			t.Errorf("%s is listed twice", m.ID)
		}
		who[m.ID] = m.Providers
	}
	for _, row := range []struct {
		about string
		id    policy.ModelID
		want  []policy.ProviderID
	}{
		{"a model of two providers", "gpt-4o", []policy.ProviderID{"openai", "vllm"}},
		{"a model of one", "llama-4", []policy.ProviderID{"vllm"}},
		{"an alias is not listed", "claude-sonnet-4", nil},
		{"a model of a provider that is not enabled", "gemini-2.5-pro", nil},
	} {
		if !slices.Equal(who[row.id], row.want) {
			t.Errorf("%s: %s is served by %q, want %q", row.about, row.id, who[row.id], row.want)
		}
	}
	if m, ok := r.Model("claude-sonnet-4"); !ok || m.ID != "claude-sonnet-4-0" {
		t.Errorf("an alias is found as %q", m.ID)
	}
	if m, ok := r.Model("vllm/gpt-4o"); !ok || m.ID != "gpt-4o" || !slices.Equal(m.Providers, []policy.ProviderID{"vllm"}) || len(m.Offers) != 1 || len(m.Abilities) != 1 {
		t.Errorf("a provider's model is found as %q at %q", m.ID, m.Providers)
	}
	for _, id := range []string{"nobody", "vllm/nobody", "nobody/gpt-4o", "openai/llama-4"} {
		if _, ok := r.Model(id); ok {
			t.Errorf("%s, a model that nobody lists, is found", id)
		}
	}
}

func TestWorstCost(t *testing.T) {
	cheap := policy.Resolution{Prices: policy.Prices{Input: 1e6, Output: 2e6}}
	dear := policy.Resolution{Prices: policy.Prices{Input: 3e6, CacheWrite: 4e6, CacheWrite1h: 6e6, Output: 15e6, PerRequest: 7}, MaxOutput: 100}
	for _, row := range []struct {
		about                  string
		order                  []policy.Resolution
		input, output, choices int64
		want                   policy.Pico
	}{
		{"nobody", nil, 10, 10, 1, 0},
		{"input and output", []policy.Resolution{cheap}, 10, 10, 1, 30e6},
		{"every input token could be an hour's cache write", []policy.Resolution{dear}, 10, 10, 1, 60e6 + 150e6 + 7},
		{"output ends at the model's limit", []policy.Resolution{dear}, 0, 1_000_000, 1, 1500e6 + 7},
		{"each choice has the model's limit", []policy.Resolution{dear}, 0, 1_000_000, 3, 4500e6 + 7},
		{"the dearest of the order", []policy.Resolution{cheap, dear}, 10, 10, 1, 60e6 + 150e6 + 7},
		{"nothing is below zero", []policy.Resolution{cheap}, -5, -5, -5, 0},
		{"an absurd request costs the largest amount", []policy.Resolution{cheap}, math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64},
	} {
		t.Run(row.about, func(t *testing.T) {
			if got := resolve.WorstCost(row.order, row.input, row.output, row.choices); got != row.want {
				t.Errorf("got %d, want %d", got, row.want)
			}
		})
	}
}

// Any model results in an order or a fault, and a request for one provider is not sent to another.
func FuzzResolve(f *testing.F) {
	r := configured(f, both)
	f.Add("gpt-4o", "openai")
	f.Add("openai/gpt-4o-2024-08-06", "")
	f.Add("/", "")
	f.Fuzz(func(t *testing.T, model, provider string) {
		res, err := r.Resolve(model, provider)
		if (err == nil) == (len(res) == 0) {
			t.Fatalf("%d resolutions and %v", len(res), err)
		}
		for _, one := range res {
			if one.Upstream == "" || provider != "" && string(one.Provider) != provider {
				t.Fatalf("asked %q of %q, got %q", model, provider, said(res))
			}
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	r := configured(b, both)
	for _, id := range []string{"claude-sonnet-4-5", "claude-sonnet-4.5", "gpt-4o", "gpt-4o-2024-08-06", "openai/gpt-4o"} {
		b.Run(strings.ReplaceAll(id, "/", "_"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Resolve(id, ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestModelsThatServeOnlyThoseWhoNameThem(t *testing.T) {
	r := configured(t, `providers: {anthropic: {api_key: k}}`)
	in := intent.Of("heartbeat_t1")
	if d := r.Decide(&in); len(d.Order) == 0 || strings.HasPrefix(string(d.Order[0].Model), "claude-3") {
		t.Errorf("a heartbeat goes to %q", said(d.Order))
	}
	if res, err := r.Resolve("claude-3-haiku", ""); err != nil || said(res) == "" {
		t.Errorf("by its name: %q, %v", said(res), err)
	}
	listed := configured(t, `providers: {custom: [{id: mine, format: anthropic, endpoints: [http://localhost:1/v1], models: [{id: claude-3-haiku}]}]}`)
	if d := listed.Decide(&in); len(d.Order) != 1 {
		t.Errorf("one that lists it is asked for %q", said(d.Order))
	}
}
