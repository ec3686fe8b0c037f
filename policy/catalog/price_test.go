package catalog_test

import (
	"testing"
	"time"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
)

// TestPublishedPricesOfLongPromptsAndTiers: what requests come to by their providers' own price lists. Gemini: ai.google.dev/gemini-api/docs/pricing
// (prompts above 200k tokens). Anthropic: platform.claude.com/docs/en/about-claude/pricing, long context: all input tokens count, those of
// the cache too. OpenAI: "prompts with >272K input tokens are priced at 2x input and 1.5x output for the full session", and the tables of
// flex and priority (openai.com/api-priority-processing).
func TestPublishedPricesOfLongPromptsAndTiers(t *testing.T) {
	t.Parallel()
	known := catalog.New(catalogtest.Embedded())
	for _, row := range []struct {
		about, model, tier           string
		at                           policy.ProviderID
		input, cached, write, output int64
		want                         string
	}{
		{"Gemini, just not long", "gemini-2.5-pro", "", "google", 200_000, 0, 0, 1_000, "0.26"},
		{"Gemini, long", "gemini-2.5-pro", "", "google", 200_001, 0, 0, 1_000, "0.5150025"},
		{"Gemini, long by what is cached", "gemini-3.1-pro-preview", "", "google", 1_000, 249_000, 0, 1_000, "0.1216"},
		{"Anthropic's long context", "claude-sonnet-4-5", "", "anthropic", 10_000, 150_000, 50_000, 1_000, "0.5475"},
		{"OpenAI, long", "gpt-5.4", "", "openai", 300_000, 0, 0, 1_000, "1.5225"},
		{"OpenAI, flex", "gpt-5.4", "flex", "openai", 100_000, 0, 0, 1_000, "0.1325"},
		{"OpenAI, long and flex", "gpt-5.4", "flex", "openai", 300_000, 0, 0, 1_000, "0.76125"},
		{"OpenAI, priority", "gpt-5-mini", "priority", "openai", 100_000, 20_000, 0, 1_000, "0.0495"},
		{"a snapshot has its model's", "gpt-4.1-2025-04-14", "priority", "openai", 100_000, 0, 0, 1_000, "0.364"},
		{"Qwen, twice as long", "qwen3-coder-plus", "", "qwen", 130_000, 0, 0, 1_000, "0.405"},
	} {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			prices := known.Unlisted(row.at, row.model).Prices
			p, ok := prices.InTier(row.tier)
			if got := p.Cost(row.input, row.cached, row.write, 0, row.output); got.String() != row.want || !ok || !p.Known {
				t.Errorf("costs %s (%v), want %s", got, ok, row.want)
			}
		})
	}
}

// TestTiersOfServiceAreTheirVendors: another provider of the model may have none, and bills none, unless its operator says so.
func TestTiersOfServiceAreTheirVendors(t *testing.T) {
	t.Parallel()
	one, two := policy.Price(1_000_000), policy.Price(2_000_000)
	own := modelfile.File{Models: []modelfile.Model{{ID: "mine/gpt-5", Price: &modelfile.Price{ServiceTiers: map[string]modelfile.TierPrice{
		"priority": {Input: &one, Output: &two},
	}}}}}
	c := catalog.New(catalogtest.Embedded(), own)
	for at, want := range map[policy.ProviderID]policy.Price{"openai": 2_500_000, "venice": 0, "mine": 1_000_000} {
		if got := c.Unlisted(at, "gpt-5").Prices.Tiers["priority"].Input; got != want {
			t.Errorf("at %s: %d, want %d", at, got, want)
		}
	}
	if n := len(c.Unlisted("mine", "gpt-5").Prices.Tiers); n != 1 {
		t.Errorf("%d tiers, want the operator's alone", n)
	}
}

// TestOperatorsOverrideLongPrices: the operator's prices of longer prompts replace all others, an empty list removes them, and an entry without them
// keeps them.
func TestOperatorsOverrideLongPrices(t *testing.T) {
	t.Parallel()
	one, two := policy.Price(1_000_000), policy.Price(2_000_000)
	c := catalog.New(catalogtest.Embedded())
	for about, row := range map[string]struct {
		said []modelfile.LongPrice
		want []int64
	}{
		"nothing":     {nil, []int64{32_000, 128_000}},
		"none":        {[]modelfile.LongPrice{}, nil},
		"another one": {[]modelfile.LongPrice{{Tokens: 5, Input: &one, Output: &two}}, []int64{5}},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			got := c.At("qwen", modelfile.Model{ID: "qwen3-max", Price: &modelfile.Price{Input: &one, Output: &one, Above: row.said}}).Prices.Above
			if len(got) != len(row.want) {
				t.Fatalf("%+v", got)
			}
			for i := range got {
				if got[i].Tokens != row.want[i] || about == "another one" && (got[i].CachedInput != one || got[i].CacheWrite1h != one) {
					t.Errorf("%+v", got[i])
				}
			}
		})
	}
}

// TestPricesOfOtherUnits are the vendor's own: another provider of the same model may charge more.
func TestPricesOfOtherUnits(t *testing.T) {
	c := catalog.New(catalogtest.Embedded())
	for _, row := range []struct {
		at     policy.ProviderID
		id     string
		known  bool
		priced func(u *policy.UnitPrices) bool // nil: none
	}{
		{"openai", "whisper-1", true, func(u *policy.UnitPrices) bool { return u.Seconds(10_000) == 1_000_000_000 && u.NoTokens }},
		{"groq", "whisper-large-v3", true, func(u *policy.UnitPrices) bool {
			return u.Seconds(1) == u.Seconds(10_000) && u.Seconds(10_000) < u.Seconds(11_000)
		}},
		{"deepinfra", "whisper-large-v3", false, nil},
		{"together", "black-forest-labs/FLUX.1-schnell", true, func(u *policy.UnitPrices) bool { return u.PerMegapixel == 2_700_000_000 && u.Steps == 4 }},
		{"openai", "gpt-image-1", true, func(u *policy.UnitPrices) bool { return u.ImageInput == 10_000_000 && !u.NoTokens }},
		{"openai", "omni-moderation-latest", true, nil},
	} {
		m := c.Unlisted(row.at, row.id)
		if m.Prices.Known != row.known || (m.Prices.Units != nil) != (row.priced != nil) || row.priced != nil && !row.priced(m.Prices.Units) {
			t.Errorf("%s at %s: %+v, %+v", row.id, row.at, m.Prices, m.Prices.Units)
		}
	}
}

// TestB17PricesByTheTimeOfDay: a part of the day replaces the regular prices of tokens, or scales them; its name and its end are reported.
func TestB17PricesByTheTimeOfDay(t *testing.T) {
	t.Parallel()
	at := func(clock string) time.Time {
		now, err := time.Parse("2006-01-02 15:04", "2026-11-28 "+clock) // a Saturday
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	c := catalog.New(catalogtest.Embedded(), parse(t, `
models:
  - {id: gpt-5-mini, price: {hours: [{from: "16:30", to: "00:30", pct: 50}]}}
  - {id: mine, price: {input: 1, output: 2, cached_input: 0.5, above: [{tokens: 1000, input: 3, output: 4}], hours: [{from: "00:00", to: "06:00", days: [sun], input: 9, output: 9}, {from: "05:00", to: "07:00", input: 0.1, output: 0.2}]}}
`))
	for _, row := range []struct {
		clock, model, tier string
		input              int64
		want, part         string
		until              string // zero: never
	}{
		{"16:29", "gpt-5-mini", "", 1000, "0.00225", "", "16:30"},
		{"16:30", "gpt-5-mini", "", 1000, "0.001125", "16:30-00:30 UTC", "00:30"},
		{"16:30", "gpt-5-mini", "priority", 1000, "0.002025", "16:30-00:30 UTC", "00:30"},
		{"04:00", "mine", "", 1000, "0.003", "", "05:00"},
		{"05:00", "mine", "", 1000, "0.0003", "05:00-07:00 UTC", "06:00"},
		{"05:00", "mine", "", 2000, "0.01", "05:00-07:00 UTC", "06:00"}, // the usual price of longer prompts
		{"16:30", "gpt-5-nano", "", 1000, "0.00045", "", ""},
	} {
		m := c.AsOf(at(row.clock)).Unlisted("openai", row.model)
		p, _ := m.Prices.InTier(row.tier)
		until := ""
		if !m.PriceUntil.IsZero() {
			until = m.PriceUntil.Format("15:04")
		}
		if got := p.Cost(row.input, 0, 0, 0, 1000).String(); got != row.want || m.Prices.Origin.Hours != row.part || until != row.until {
			t.Errorf("%s at %s: %s of %q until %q", row.model, row.clock, got, m.Prices.Origin.Hours, until)
		}
	}
	usual := c.Unlisted("openai", "mine").Prices
	if got := usual.Cost(0, 1000, 0, 0, 0).String(); got != "0.0005" {
		t.Errorf("without a time: %s", got)
	}
	if got := c.AsOf(at("16:00")).PricesUntil().Format("15:04"); got != "16:30" {
		t.Errorf("prices change at %s", got)
	}
}
