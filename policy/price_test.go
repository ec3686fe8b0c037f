package policy_test

import (
	"encoding/json"
	"testing"

	"bardo.money/gateway/policy"
)

// long costs twice as much beyond 200 tokens, and ten times as much beyond 1,000; half as much in the flex tier.
var long = policy.Prices{
	Input: 3, Output: 15, CachedInput: 1, CacheWrite: 4, CacheWrite1h: 6, PerRequest: 7, Known: true,
	Above: []policy.Above{
		{Tokens: 200, Input: 6, Output: 20, CachedInput: 2, CacheWrite: 8, CacheWrite1h: 12},
		{Tokens: 1000, Input: 30, Output: 150, CachedInput: 10, CacheWrite: 40, CacheWrite1h: 60},
	},
	Tiers: map[string]policy.Prices{"flex": {Input: 2, Output: 8, CachedInput: 1, CacheWrite: 2, CacheWrite1h: 2, Known: true}},
}

// TestThePromptsLengthDecidesThePriceOfAll: all prompt tokens count, cached or not, and every token of the request has the price for that length.
func TestThePromptsLengthDecidesThePriceOfAll(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		about                                 string
		input, cached, write, write1h, output int64
		want                                  policy.Pico
	}{
		{"just not longer", 200, 0, 0, 0, 10, 7 + 200*3 + 10*15},
		{"longer by one", 201, 0, 0, 0, 10, 7 + 201*6 + 10*20},
		{"what is cached counts", 1, 100, 60, 40, 10, 7 + 1*6 + 100*2 + 60*8 + 40*12 + 10*20},
		{"the answer does not", 200, 0, 0, 0, 5000, 7 + 200*3 + 5000*15},
		{"the longest has its own", 1001, 0, 0, 0, 1, 7 + 1001*30 + 150},
	} {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			if got := long.Cost(row.input, row.cached, row.write, row.write1h, row.output); got != row.want {
				t.Errorf("costs %d, want %d", got, row.want)
			}
		})
	}
}

func TestTheMostExpensivePriceOfAPrompt(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		prompt        int64
		input, output policy.Price
	}{{200, 6, 15}, {201, 12, 20}, {1001, 60, 150}} {
		if in, out := long.MostExpensive(row.prompt); in != row.input || out != row.output {
			t.Errorf("%d tokens: %d and %d", row.prompt, in, out)
		}
	}
}

func TestTiersOfService(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		input policy.Price
		ok    bool
	}{
		"": {3, true}, "auto": {3, true}, "default": {3, true}, "standard_only": {3, true}, "flex": {2, true}, "priority": {3, false},
	} {
		if in, ok := long.InTier(name); in.Input != want.input || ok != want.ok {
			t.Errorf("%q: %d, %v", name, in.Input, ok)
		}
	}
}

func TestHowPricesAreShown(t *testing.T) {
	t.Parallel()
	p := policy.Prices{
		Input: 1_250_000, Output: 10_000_000, Above: []policy.Above{{Tokens: 200_000, Input: 2_500_000, Output: 15_000_000}},
		Tiers: map[string]policy.Prices{"flex": {Input: 625_000, Output: 5_000_000}},
	}
	const want = `{"input":1.250000,"output":10.000000,"cached_input":0.000000,"cache_write":0.000000,"cache_write_1h":0.000000,` +
		`"above":[{"tokens":200000,"input":2.500000,"output":15.000000,"cached_input":0.000000,"cache_write":0.000000,"cache_write_1h":0.000000}],` +
		`"service_tiers":{"flex":{"input":0.625000,"output":5.000000,"cached_input":0.000000,"cache_write":0.000000,"cache_write_1h":0.000000}}}`
	if got, err := json.Marshal(p.List()); err != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
}

func TestThePriceOfAnImage(t *testing.T) {
	t.Parallel()
	u := policy.UnitPrices{PerImage: 9, Images: map[string]policy.Pico{"hd/1024x1024": 8, "512x512": 2, "hd": 5}}
	for _, row := range []struct {
		size, quality string
		want          policy.Pico
	}{{"1024x1024", "hd", 8}, {"512x512", "hd", 2}, {"256x256", "hd", 5}, {"256x256", "low", 9}} {
		if got, ok := u.Image(row.size, row.quality); !ok || got != row.want {
			t.Errorf("%s, %s: %d, %v", row.size, row.quality, got, ok)
		}
	}
	if _, ok := (&policy.UnitPrices{}).Image("1024x1024", "hd"); ok {
		t.Error("an image has a price that nobody said")
	}
}

func TestSecondsAreRoundedUp(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		perHour policy.Micro
		ms      int64
		want    policy.Pico
	}{
		{360_000, 1000, 100_000_000}, {40_000, 1000, 11_111_112}, {40_000, 0, 0}, {1 << 60, 1 << 60, policy.MaxPico},
	} {
		if got := (&policy.UnitPrices{PerHour: row.perHour}).Seconds(row.ms); got != row.want {
			t.Errorf("%d ms at %s: %d, want %d", row.ms, row.perHour, got, row.want)
		}
	}
}

func TestR28PricesOfABatch(t *testing.T) {
	p := policy.Prices{
		Input: 3, CachedInput: 1, CacheWrite: 5, CacheWrite1h: 7, Output: 10, PerSearch: 4, Known: true,
		Above: []policy.Above{{Tokens: 9, Input: 6, Output: 21}}, Tiers: map[string]policy.Prices{"priority": {Input: 9}},
	}
	got := p.Percent(50)
	if got.Input != 2 || got.CachedInput != 1 || got.CacheWrite != 3 || got.CacheWrite1h != 4 || got.Output != 5 || got.PerSearch != 4 || !got.Known || len(got.Tiers) != 0 ||
		len(got.Above) != 1 || got.Above[0].Tokens != 9 || got.Above[0].Input != 3 || got.Above[0].Output != 11 {
		t.Errorf("half of the prices is %+v", got)
	}
	if p.Input != 3 || p.Above[0].Input != 6 {
		t.Errorf("the prices themselves changed: %+v", p)
	}
}
