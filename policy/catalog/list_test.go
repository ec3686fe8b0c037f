package catalog_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
)

func list(t *testing.T, format string) []modelfile.Model {
	t.Helper()
	b, err := os.ReadFile("testdata/" + format + ".json")
	if err != nil {
		t.Fatal(err)
	}
	models, err := catalog.Parse(format, b)
	if err != nil {
		t.Fatal(err)
	}
	return models
}

var today = time.Date(2026, 8, 5, 12, 0, 0, 0, time.UTC)

// market returns a catalog whose provider "p" has the list of a format.
func market(t *testing.T, format string, operator ...modelfile.File) *catalog.Catalog {
	t.Helper()
	c := catalog.New(append([]modelfile.File{catalogtest.Embedded()}, operator...)...)
	return c.With(map[policy.ProviderID]catalog.List{"p": {Format: format, Models: list(t, format), Read: today}})
}

// shown returns the effective models of a list, in short.
func shown(c *catalog.Catalog) string {
	var b strings.Builder
	models, _ := c.Listed("p")
	for _, l := range models {
		m := c.At("p", l)
		p := m.Prices
		fmt.Fprintf(&b, "%s < %s %v: %d+%d $%d %d %d %d %d", m.ID, m.Upstream, l.Aliases, m.Context, m.MaxOutput, p.Input, p.Output, p.CachedInput, p.CacheWrite, p.CacheWrite1h)
		if p.PerRequest != 0 || p.PerSearch != 0 {
			fmt.Fprintf(&b, " +%v/%v", p.PerRequest, p.PerSearch)
		}
		fmt.Fprintf(&b, " %s; %v; %s %v %v\n", m.PriceSource, m.Capabilities, m.Thinking.Control, m.Thinking.Efforts, m.Thinking.Display)
	}
	return b.String()
}

func TestListsK89ModelsAreWhatTheCatalogKnowsThemAs(t *testing.T) {
	for format, want := range map[string]string{
		"openrouter": `claude-opus-4-6 < anthropic/claude-opus-4.6 [anthropic/claude-opus-4.6]: 1000000+128000 $5000000 25000000 500000 6250000 10000000 +0/0.01 provider; [citations interleaved_thinking adaptive_thinking visible_thinking low_effort structured_outputs prompt_caching tools vision documents]; effort [low medium high max] true
deepseek-r1 < deepseek/deepseek-r1 [deepseek/deepseek-r1]: 64000+16000 $700000 2500000 700000 700000 700000 provider; [visible_thinking low_effort]; effort [] true
deepseek-r1:free < deepseek/deepseek-r1:free [deepseek/deepseek-r1:free]: 163840+32768 $0 0 0 0 0 provider; []; none [] false
newcorp/Nova-9 < newcorp/Nova-9 [nova-9]: 32768+0 $250000 1000000 250000 250000 250000 +0.005/0 provider; [];  [] false
openrouter/auto < openrouter/auto [auto]: 2000000+0 $3000000 15000000 300000 3750000 6000000 default; []; none [] false
thinker/dear < thinker/dear [dear]: 1+0 $1000000 3000000 1000000 1000000 1000000 provider; [visible_thinking low_effort]; effort [] true
`,
		"venice": `llama-3.3-70b < llama-3.3-70b []: 131072+4096 $700000 2800000 700000 700000 700000 provider; [privacy web_search no_log tools]; none [] false
deepseek-r1 < deepseek-r1-671b [deepseek-r1-671b]: 131072+32768 $3500000 14000000 300000 3500000 3500000 provider; [privacy visible_thinking structured_outputs prompt_caching web_search tee_attested no_log e2ee]; toggle [] true
claude-opus-4-5 < claude-opus-45 [claude-opus-45]: 202752+64000 $6000000 30000000 600000 7500000 7500000 provider; [citations interleaved_thinking visible_thinking low_effort prompt_caching tools vision]; effort [low medium high] true
`,
		"blockrun": `claude-haiku-4-5 < anthropic/claude-haiku-4.5 [anthropic/claude-haiku-4.5]: 200000+64000 $1000000 5000000 100000 1250000 1250000 provider; [tools structured_outputs prompt_caching citations low_effort vision]; budget [] true
gpt-oss-120b < nvidia/gpt-oss-120b [nvidia/gpt-oss-120b]: 128000+16384 $0 0 0 0 0 provider; [tools structured_outputs visible_thinking low_effort]; effort [low medium high] false
kimi-k2.5 < moonshot/kimi-k2.5 [moonshot/kimi-k2.5]: 262144+0 $0 0 0 0 0 +0.001/0 provider; [tools structured_outputs visible_thinking prompt_caching]; toggle [] true
gpt-5.4 < openai/gpt-5.4 [openai/gpt-5.4]: 1050000+128000 $2500000 15000000 2500000 2500000 2500000 provider; [tools structured_outputs prompt_caching low_effort vision]; effort [none low medium high xhigh] false
qwen3-235b-a22b < qwen3-235b [qwen3-235b]: 262144+16384 $200000 600000 200000 200000 200000 provider; [tools visible_thinking low_effort]; streamed [] true
`,
		"bardo": `claude-opus-5-5 < claude-opus-5-5 []: 1000000+128000 $4800000 24000000 240000 6000000 9600000 +0/0.012 provider; [tools vision structured_outputs prompt_caching citations interleaved_thinking adaptive_thinking low_effort]; adaptive [low medium high xhigh max] true
hermes-70b < hermes-70b []: 131072+0 $120002 360000 120002 120002 120002 +0.0012/0 provider; [tools];  [] false
unpriced < unpriced []: 0+0 $3000000 15000000 300000 3750000 6000000 default; [];  [] false
`,
	} {
		t.Run(format, func(t *testing.T) {
			if got := shown(market(t, format)); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestTheOperatorStandsOverAList(t *testing.T) {
	c := market(t, "openrouter", parse(t, `
models:
  - {id: claude-opus-4.6, price: {input: 4, output: 20}}
  - {id: p/deepseek-r1, context: 1000}
  - {id: q/claude-opus-4.6, context: 7}
`))
	for _, row := range []struct {
		about     string
		got, want any
	}{
		{"the operator's price overrides the list's", at(c, "p", "claude-opus-4-6").Prices.Input, policy.Price(4_000_000)},
		{"and is the operator's", at(c, "p", "claude-opus-4-6").PriceSource, catalog.SourceOperator},
		{"what the operator leaves out is the list's", at(c, "p", "claude-opus-4-6").Prices.CachedInput, policy.Price(500_000)},
		{"an entry for one provider holds there", at(c, "p", "deepseek-r1").Context, 1000},
		{"and nowhere else", at(c, "p", "claude-opus-4-6").Context, 1_000_000},
		{"a list holds at its own provider alone", at(c, "q", "deepseek-r1").Context, 163_840},
		{"the embedded price is the catalog's", at(c, "q", "gpt-4o").PriceSource, catalog.SourceCatalog},
		{"and of its day", at(c, "q", "gpt-4o").PriceUpdated.IsZero(), false},
		{"a list's price is of when it was read", at(c, "p", "deepseek-r1").PriceUpdated, today},
		{"what the configuration says overrides all", c.At("p", modelfile.Model{ID: "claude-opus-4-6", Context: 9}).Context, 9},
		{"nobody's price is the default", at(c, "p", "no-such").PriceSource, catalog.SourceDefault},
	} {
		if row.got != row.want {
			t.Errorf("%s: got %v, want %v", row.about, row.got, row.want)
		}
	}
}

func at(c *catalog.Catalog, p policy.ProviderID, id string) catalog.Model {
	return c.At(p, modelfile.Model{ID: id})
}

func TestDiff(t *testing.T) {
	c := catalog.New(catalogtest.Embedded())
	read := func(text string) *catalog.Catalog {
		models, err := catalog.Parse("openrouter", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c.With(map[policy.ProviderID]catalog.List{"p": {Format: "openrouter", Models: models, Read: today}})
	}
	entry := func(id, price string) string {
		return fmt.Sprintf(`{"id":%q,"pricing":{"prompt":%q,"completion":"0.00001"}}`, id, price)
	}
	old := read("[" + entry("openai/gpt-4o", "0.0000025") + "," + entry("a/b", "0.000001") + "," + entry("a/gone", "0.000001") + "]")
	now := read("[" + entry("openai/gpt-4o", "0.000003") + "," + entry("a/b", "0.000001") + "," + entry("openai/gpt-4o-2024-08-06", "0.000001") + "]")
	var got []string
	for _, ch := range catalog.Diff(old, now) {
		got = append(got, fmt.Sprintf("%s %s/%s %d→%d", ch.Kind, ch.Provider, ch.Model, ch.Old.Input, ch.New.Input))
	}
	want := []string{
		"price_changed p/gpt-4o 2500000→3000000", "model_appeared p/gpt-4o-2024-08-06 0→1000000", "model_vanished p/a/gone 1000000→0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if ch := append(catalog.Diff(c, now), catalog.Diff(now, c)...); len(ch) != 0 {
		t.Errorf("a first list, or none, changes %v", ch)
	}
}

func TestAListThatSaysNothingIsNoList(t *testing.T) {
	for about, row := range map[string][2]string{
		"no form":          {"yaml", `{"data":[{"id":"m"}]}`},
		"no JSON":          {"openai", `<html>`},
		"an error":         {"openai", `{"error":{"message":"m"}}`},
		"no models":        {"openai", `{"data":[]}`},
		"only bad entries": {"openai", `{"data":[{"id":""},{"id":"a b"},{}, 7]}`},
		"another shape":    {"openai", `{"data":{"id":"m"}}`},
	} {
		if models, err := catalog.Parse(row[0], []byte(row[1])); err == nil {
			t.Errorf("%s: %v", about, models)
		}
	}
	models, err := catalog.Parse("openai", []byte(`{"object":"list","data":[{"id":"m","object":"model","max_model_len":4096},{"id":"m"},{"id":"n","context_length":"x"}]}`))
	if err != nil || len(models) != 2 || models[0].Context != 4096 || models[1].Context != 0 {
		t.Errorf("%v, %v", models, err)
	}
}

// Any answer of a provider results in usable models: ids that fit a header, and prices within limits.
func FuzzParse(f *testing.F) {
	for _, format := range []string{"openai", "openrouter", "venice", "blockrun", "bardo"} {
		if b, err := os.ReadFile("testdata/" + format + ".json"); err == nil {
			f.Add(format, b)
		}
		f.Add(format, []byte(`[{"id":"m","pricing":{"prompt":"9e99","completion":"1e-99","input":{"usd":1e400}}}]`))
	}
	base := catalog.New(catalogtest.Embedded())
	f.Fuzz(func(t *testing.T, format string, body []byte) {
		models, err := catalog.Parse(format, body)
		if (err == nil) != (len(models) > 0) {
			t.Fatalf("%d models, %v", len(models), err)
		}
		c := base.With(map[policy.ProviderID]catalog.List{"p": {Format: format, Models: models}})
		listed, _ := c.Listed("p")
		for _, l := range listed {
			m := c.At("p", l)
			switch p := m.Prices; {
			case m.Upstream == "" || m.ID == "" || strings.ContainsAny(m.Upstream, " \r\n\t\""):
				t.Fatalf("%q %q", m.ID, m.Upstream)
			case min(p.Input, p.Output, p.CachedInput, p.CacheWrite, p.CacheWrite1h) < 0 || p.PerRequest < 0 || m.Context < 0 || m.MaxOutput < 0:
				t.Fatalf("%+v", m)
			case p.Cost(1_000_000, 0, 0, 0, 1_000_000) < 0:
				t.Fatalf("a million tokens overflow: %+v", p)
			}
		}
		if ch := catalog.Diff(c, c); len(ch) != 0 {
			t.Fatalf("a list differs from itself: %v", ch)
		}
	})
}
