package catalog_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
)

func parse(t *testing.T, text string) modelfile.File {
	t.Helper()
	file, problems := config.ParseModels("test.yaml", []byte(text))
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	return file
}

func TestEmbeddedFile(t *testing.T) {
	file := catalogtest.Embedded()
	if file.Source == "" || len(file.AsOf) != len("2006-01-02") {
		t.Errorf("the file does not say where its data come from: %q, as of %q", file.Source, file.AsOf)
	}
	if len(file.Models) < 80 {
		t.Fatalf("%d models: the file was not read", len(file.Models))
	}
	c := catalog.New(file)
	open := []string{"deepseek", "llama", "hermes", "glm", "kimi", "gpt-oss"} // families that no vendor has for itself
	for _, e := range file.Models {
		m, ok := c.Lookup(e.ID)
		switch {
		case !ok || string(m.ID) != e.ID:
			t.Errorf("%s is found as %q", e.ID, m.ID)
		case !m.Prices.Known && m.Vendor != "":
			t.Errorf("%s has no price", e.ID)
		case m.Prices.CachedInput > m.Prices.Input || m.Prices.Output < m.Prices.Input && policy.Special(m.Capabilities) == "":
			t.Errorf("%s has an unlikely price: %+v", e.ID, m.Prices)
		case m.Vendor == "" && !slices.Contains(open, m.Family):
			t.Errorf("%s has no vendor", e.ID)
		case m.Quality == policy.QualityUnset:
			t.Errorf("%s has no class of quality", e.ID)
		case m.Thinking.Control == policy.ControlUsual:
			t.Errorf("nothing says how %s is told to think", e.ID)
		case m.Thinking.Control == policy.ControlAdaptive != slices.Contains(m.Capabilities, policy.AdaptiveThinking):
			t.Errorf("%s: %s, and %v", e.ID, m.Thinking.Control, m.Capabilities)
		case m.Thinking.Control == policy.ControlNone && m.Reasoning != "none":
			t.Errorf("%s cannot be told to think, and its reasoning is found as %q", e.ID, m.Reasoning)
		case m.PriceUpdated.IsZero() && m.Prices.Known:
			t.Errorf("%s: nobody says when its price was true", e.ID)
		case m.Family == "claude" && m.Prices.CacheWrite1h != 2*m.Prices.Input:
			t.Errorf("%s: an hour's cache write costs twice the input, got %v", e.ID, m.Prices.CacheWrite1h)
		case m.MaxOutput > m.Context && policy.Special(m.Capabilities) != policy.ImageGeneration: // tokens of an image
			t.Errorf("%s writes %d tokens into a window of %d", e.ID, m.MaxOutput, m.Context)
		}
	}
	if got := c.Families(); !slices.Equal(got, []string{"claude", "gpt", "text-embedding", "omni-moderation", "gpt-image", "dall-e", "whisper", "gpt-transcribe", "tts", "gpt-realtime", "flux", "llama-rank", "grok-image", "o", "gemini", "deepseek", "qwen", "llama", "hermes", "glm", "kimi", "gpt-oss"}) {
		t.Errorf("families %q", got)
	}
}

// K-89, and the ids of snapshots.
func TestLookupK89FindsEverySpelling(t *testing.T) {
	c := catalog.New(catalogtest.Embedded())
	for _, row := range []struct{ about, id, want string }{
		{"as it is", "claude-opus-4-6", "claude-opus-4-6"},
		{"K-89: a dot for a dash", "claude-opus-4.6", "claude-opus-4-6"},
		{"K-89: a dash for a dot", "gpt-4-1-mini", "gpt-4.1-mini"},
		{"another case", "GPT-4o", "gpt-4o"},
		{"a dated snapshot", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"},
		{"a dated snapshot with a dot", "claude-sonnet-4.5-20250929", "claude-sonnet-4-5"},
		{"a date with dashes", "gpt-4o-2024-08-06", "gpt-4o"},
		{"a snapshot with its own price", "gpt-4o-2024-05-13", "gpt-4o-2024-05-13"},
		{"month and day", "gpt-4-0613", "gpt-4"},
		{"the latest", "claude-3-7-sonnet-latest", "claude-3-7-sonnet-20250219"},
		{"the name that OpenAI answers as another of its models", "gpt-5.6", "gpt-5.6"},
		{"an alias", "claude-sonnet-4", "claude-sonnet-4-0"},
		{"a snapshot of an alias", "claude-sonnet-4-20250514", "claude-sonnet-4-0"},
		{"an earlier snapshot of an alias", "claude-3-5-sonnet-20240620", "claude-3-5-sonnet-20241022"},
		{"latest in the name", "gpt-5-chat-latest", "gpt-5-chat-latest"},
		{"an organisation makes another id", "openai/gpt-4o", ""},
		{"unknown", "gpt-99", ""},
		{"only a suffix", "-latest", ""},
		{"empty", "", ""},
		{"very long", strings.Repeat("gpt-4o", 100), ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			m, ok := c.Lookup(row.id)
			if string(m.ID) != row.want || ok != (row.want != "") {
				t.Errorf("%q is found as %q, want %q", row.id, m.ID, row.want)
			}
		})
	}
}

// K-32, K-33: what the providers' own consoles showed, to the last digit.
func TestCostK32K33(t *testing.T) {
	c := catalog.New(catalogtest.Embedded(), parse(t, "models: [{id: gemini-of-2025, price: {input: 1.25, output: 10, cached_input: 0.625}}]"))
	for _, row := range []struct {
		about, model                          string
		input, cached, write, write1h, output int64
		want, rounded                         string
	}{
		{"K-32: a cache write", "claude-opus-4-5", 6, 0, 159_217, 0, 2_745, "1.06376125", "1.0638"},
		{"K-33: a cache write of a Sonnet", "claude-sonnet-4-5", 3, 0, 12_304, 0, 550, "0.054399", "0.0544"},
		{"K-33: the cached part of an input counts once", "gemini-of-2025", 262_960 - 257_955, 257_955, 0, 0, 1_744, "0.184918125", "0.1849"},
		{"an hour's cache write costs twice the input", "claude-sonnet-4-5", 0, 0, 0, 100_000, 0, "0.6", "0.6000"},
	} {
		t.Run(row.about, func(t *testing.T) {
			m, ok := c.Lookup(row.model)
			if !ok {
				t.Fatalf("no %s", row.model)
			}
			got := m.Prices.Cost(row.input, row.cached, row.write, row.write1h, row.output)
			if got.String() != row.want {
				t.Errorf("got $%s, want $%s", got, row.want)
			}
			if figure := fmt.Sprintf("%.4f", float64(got)/1e12); figure != row.rounded {
				t.Errorf("a console would show $%s, want $%s", figure, row.rounded)
			}
		})
	}
}

func TestOperatorsFile(t *testing.T) {
	c := catalog.New(catalogtest.Embedded(), parse(t, `
models:
  - {id: gpt-4.1, price: {cached_input: 0.25}}
  - {id: claude-opus-4.6, context: 500}
  - {id: gpt-4.1-2025-04-14, max_output: 7}
  - {id: openai/gpt-4o, price: {input: 1, output: 2}}
  - {id: fast, upstream_id: gpt-4.1-mini, family: gpt}
  - {id: org/Llama-9-70B}
  - {id: half, price: {cached_input: 1}}
`))
	one := c.At("openai", modelfile.Model{ID: "gpt-4o"}).Prices
	for _, row := range []struct {
		about string
		got   any
		want  any
	}{
		{"one field is overridden", price(c, "gpt-4.1").CachedInput, policy.Price(250_000)},
		{"the other fields stay", price(c, "gpt-4.1").Input, policy.Price(2_000_000)},
		{"another spelling is the same model", look(c, "claude-opus-4-6").Context, 500},
		{"the catalog's spelling stays", look(c, "claude-opus-4.6").ID, policy.ModelID("claude-opus-4-6")},
		{"a snapshot begins as its model", look(c, "gpt-4.1-2025-04-14").Context, 1_047_576},
		{"a snapshot has its own limit", look(c, "gpt-4.1-2025-04-14").MaxOutput, 7},
		{"its model keeps its own", look(c, "gpt-4.1").MaxOutput, 32_768},
		{"provider/model holds at the provider", one.Input, policy.Price(1_000_000)},
		{"and what it does not say comes from the model", one.CachedInput, policy.Price(1_250_000)},
		{"and nowhere else", price(c, "gpt-4o").Input, policy.Price(2_500_000)},
		{"a new id takes after the model behind it", price(c, "fast").Output, policy.Price(1_600_000)},
		{"a new id keeps its upstream name", look(c, "fast").Upstream, "gpt-4.1-mini"},
		{"the family of an unknown model is read from its id", look(c, "org/Llama-9-70B").Family, "llama"},
		{"an unknown price is the default", price(c, "org/Llama-9-70B"), catalog.DefaultPrices},
		{"part of a price is no price", price(c, "half"), catalog.DefaultPrices},
		{"the default is not known", catalog.DefaultPrices.Known, false},
	} {
		t.Run(row.about, func(t *testing.T) {
			if !reflect.DeepEqual(row.got, row.want) {
				t.Errorf("got %v, want %v", row.got, row.want)
			}
		})
	}
}

func look(c *catalog.Catalog, id string) catalog.Model {
	m, _ := c.Lookup(id)
	return m
}

func price(c *catalog.Catalog, id string) policy.Prices { return unsigned(look(c, id).Prices) }

// unsigned returns prices without their origin.
func unsigned(p policy.Prices) policy.Prices { p.Origin = nil; return p }

func TestPricesThatAListingLeavesOut(t *testing.T) {
	zero, one, four := policy.Price(0), policy.Price(1_000_000), policy.Price(4_000_000)
	c := catalog.New()
	for _, row := range []struct {
		about string
		price *modelfile.Price
		want  policy.Prices
	}{
		{"nothing", nil, catalog.DefaultPrices},
		{"no cache", &modelfile.Price{Input: &one, Output: &four}, policy.Prices{Input: one, Output: four, CachedInput: one, CacheWrite: one, CacheWrite1h: one, Known: true}},
		{"an hour costs as five minutes", &modelfile.Price{Input: &one, Output: &four, CacheWrite: &four}, policy.Prices{Input: one, Output: four, CachedInput: one, CacheWrite: four, CacheWrite1h: four, Known: true}},
		{"free", &modelfile.Price{Input: &zero, Output: &zero}, policy.Prices{Known: true}},
	} {
		t.Run(row.about, func(t *testing.T) {
			m := c.At("p", modelfile.Model{ID: "m", Price: row.price})
			if got := unsigned(m.Prices); !reflect.DeepEqual(got, row.want) {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
			if o := m.Prices.Origin; o == nil || o.Source != string(m.PriceSource) || o.Updated != m.PriceUpdated {
				t.Errorf("its origin is %+v", o)
			}
		})
	}
}

func TestVendorOf(t *testing.T) {
	c := catalog.New(catalogtest.Embedded())
	for id, want := range map[string]policy.ProviderID{
		"gpt-99": "openai", "o7-mini": "openai", "ft:gpt-4o:org::1": "openai", "claude-next": "anthropic", "gemini-9": "google",
		"deepseek-v9": "deepseek", "qwen9": "qwen", "qwq-2": "qwen", "openai/gpt-99": "", "opus": "", "": "", "llama-3": "",
	} {
		if got := c.VendorOf(id); got != want {
			t.Errorf("%q is of %q, want %q", id, got, want)
		}
	}
}

func TestNear(t *testing.T) {
	c := catalog.New(catalogtest.Embedded())
	if got := c.Near("claude-sonet-4-5", 2); !slices.Contains(got, "claude-sonnet-4-5") {
		t.Errorf("got %q", got)
	}
}

// Finding never panics, and an added id finds its value.
func FuzzIndex(f *testing.F) {
	for _, id := range []string{"claude-opus-4.6", "gpt-4o-2024-05-13", "-latest", "a-20250929", "", "1.2.3"} {
		f.Add(id)
	}
	known := catalog.New(catalogtest.Embedded())
	f.Fuzz(func(t *testing.T, id string) {
		_, _ = known.Lookup(id)
		_ = known.VendorOf(id)
		var x catalog.Index[string]
		x.Add(id, id)
		if got, suffix, ok := x.Find(id); !ok || got != id || suffix != "" {
			t.Fatalf("%q is found as %q %q %v", id, got, suffix, ok)
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	c := catalog.New(catalogtest.Embedded())
	for _, id := range []string{"claude-sonnet-4-5", "claude-sonnet-4.5", "claude-sonnet-4-5-20250929", "no-such-model"} {
		b.Run(id, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = c.Lookup(id)
			}
		})
	}
}
