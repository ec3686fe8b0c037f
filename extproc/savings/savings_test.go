package savings_test

import (
	"math/rand/v2"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/savings"
	"bardo.money/gateway/policy"
)

// prices are Anthropic's, in micro-dollars per million tokens: 3, 0.30 and 3.75 USD.
var prices = policy.Prices{Input: 3_000_000, CachedInput: 300_000, CacheWrite: 3_750_000, CacheWrite1h: 6_000_000, Output: 15_000_000, Known: true}

func ofLayer(all []savings.Saved, layer string) savings.Saved {
	for _, s := range all {
		if s.Layer == layer {
			return s
		}
	}
	return savings.Saved{}
}

const perToken, perCached, perWrite = 3_000_000, 300_000, 3_750_000 // in 1e-12 USD

func TestWhatLayersSave(t *testing.T) {
	for _, row := range []struct {
		about string
		usage chat.Usage
		call  savings.Call
		left  []savings.LeftOut
		want  map[string]savings.Saved
	}{
		{
			"without a cache, what is left out is worth its price",
			chat.Usage{Input: 1000},
			savings.Call{Estimate: 1000},
			[]savings.LeftOut{{Layer: "l4", Tokens: 400}},
			map[string]savings.Saved{"l4": {Layer: "l4", Tokens: 400, Cost: 400 * perToken}},
		},
		{
			"the provider's count says how many tokens the estimate comes to",
			chat.Usage{Input: 800},
			savings.Call{Estimate: 1000},
			[]savings.LeftOut{{Layer: "l4", Tokens: 400}},
			map[string]savings.Saved{"l4": {Layer: "l4", Tokens: 320, Cost: 320 * perToken}},
		},
		{
			"a prompt of the provider's own makes no saving larger",
			chat.Usage{Input: 5000},
			savings.Call{Estimate: 1000},
			[]savings.LeftOut{{Layer: "l4", Tokens: 400}},
			map[string]savings.Saved{"l4": {Layer: "l4", Tokens: 400, Cost: 400 * perToken}},
		},
		{
			"what would have been read from the cache is worth the cached price",
			chat.Usage{Input: 100, Cached: 900},
			savings.Call{Estimate: 1000, MinCache: 1024},
			[]savings.LeftOut{{Layer: "l5", Tokens: 400}},
			map[string]savings.Saved{"l5": {Layer: "l5", Tokens: 400, Cost: 400 * perCached}},
		},
		{
			"what is new was in no cache",
			chat.Usage{Input: 100, Cached: 900},
			savings.Call{Estimate: 1000, MinCache: 1024},
			[]savings.LeftOut{{Layer: "l5", Tokens: 400, New: 300}},
			map[string]savings.Saved{"l5": {Layer: "l5", Tokens: 400, Cost: 100*perCached + 300*perToken}},
		},
		{
			"a change of what the cache had is written again",
			chat.Usage{Input: 100, Cached: 400, CacheWrite: 500},
			savings.Call{Estimate: 1000, Marks: true},
			[]savings.LeftOut{{Layer: "l5", Tokens: 400, Before: 400, Again: 450}},
			map[string]savings.Saved{"l5": {Layer: "l5", Tokens: 400, Cost: 400*perCached - 450*(perWrite-perCached)}},
		},
		{
			"and read in full where the cache needs no marks",
			chat.Usage{Input: 600, Cached: 400},
			savings.Call{Estimate: 1000, MinCache: 1024},
			[]savings.LeftOut{{Layer: "l5", Tokens: 400, Before: 400, Again: 450}},
			map[string]savings.Saved{"l5": {Layer: "l5", Tokens: 400, Cost: 400*perCached - 450*(perToken-perCached)}},
		},
		{
			"a cache that had gone cold loses nothing by a change",
			chat.Usage{Input: 4000},
			savings.Call{Estimate: 4000, MinCache: 1024},
			[]savings.LeftOut{{Layer: "l5", Tokens: 400, Before: 2000, Again: 1500}},
			map[string]savings.Saved{"l5": {Layer: "l5", Tokens: 400, Cost: 400 * perToken}},
		},
		{
			"nor does a provider whose cache nobody uses",
			chat.Usage{Input: 4000},
			savings.Call{Estimate: 4000, Marks: true},
			[]savings.LeftOut{{Layer: "l4", Tokens: 400, Again: 3000}},
			map[string]savings.Saved{"l4": {Layer: "l4", Tokens: 400, Cost: 400 * perToken}},
		},
		{
			"marks save what the cache reads, less the premium on what it writes",
			chat.Usage{Input: 10, Cached: 900, CacheWrite: 90},
			savings.Call{Estimate: 1000, Marks: true, Marked: true},
			nil,
			map[string]savings.Saved{"l1": {Layer: "l1", Cost: 900*(perToken-perCached) - 90*(perWrite-perToken)}},
		},
		{
			"and cost the premium at first",
			chat.Usage{Input: 10, CacheWrite: 990},
			savings.Call{Estimate: 1000, Marks: true, Marked: true},
			nil,
			map[string]savings.Saved{"l1": {Layer: "l1", Cost: -990 * (perWrite - perToken)}},
		},
		{"a client's own marks are its own", chat.Usage{Input: 10, Cached: 990}, savings.Call{Estimate: 1000, Marks: true}, nil, nil},
		{"and a cache that needs none is the provider's", chat.Usage{Input: 10, Cached: 990}, savings.Call{Estimate: 1000, Marked: true}, nil, nil},
	} {
		row.call.Prices, row.call.Usage = &prices, &row.usage
		got := savings.Add(nil, &row.call, row.left)
		if len(got) != len(row.want) {
			t.Errorf("%s: %+v", row.about, got)
		}
		for layer, want := range row.want {
			if ofLayer(got, layer) != want {
				t.Errorf("%s: %+v, want %+v", row.about, ofLayer(got, layer), want)
			}
		}
	}
}

// TestRoundsOfALayersToolsCostIt: the additional cost over the client's own request: the prompts of all rounds but the first, and all answers but the
// last.
func TestRoundsOfALayersToolsCostIt(t *testing.T) {
	first, second, last := chat.Usage{Input: 1000, Output: 10}, chat.Usage{Input: 1200, Output: 20}, chat.Usage{Input: 200, Cached: 1200, Output: 300}
	all := savings.Add(nil, &savings.Call{Prices: &prices, Usage: &first, Estimate: 1000}, []savings.LeftOut{{Layer: "l4", Tokens: 5000}})
	all = savings.Round(all, "l4", &prices, &second, first.Output)
	all = savings.Round(all, "l4", &prices, &last, second.Output)
	unchanged := prices.Cost(6000, 0, 0, 0, 300)
	paid := prices.Cost(1000, 0, 0, 0, 10) + prices.Cost(1200, 0, 0, 0, 20) + prices.Cost(200, 1200, 0, 0, 300)
	if got := ofLayer(all, "l4"); got.Cost != unchanged-paid || got.Tokens != 5000 {
		t.Errorf("%+v, want %d", got, unchanged-paid)
	}
}

// TestALongPromptCostsMorePerToken: if an omission avoids the long-prompt price, it saves on all tokens.
func TestALongPromptCostsMorePerToken(t *testing.T) {
	p := prices
	p.Above = []policy.Above{{Tokens: 1000, Input: 6_000_000, Output: 30_000_000, CachedInput: 600_000}}
	c := savings.Call{Prices: &p, Usage: &chat.Usage{Input: 900, Output: 100}, Estimate: 900}
	got := ofLayer(savings.Add(nil, &c, []savings.LeftOut{{Layer: "l4", Tokens: 200}}), "l4")
	if want := policy.Pico(1100*6_000_000 + 100*30_000_000 - 900*3_000_000 - 100*15_000_000); got.Cost != want {
		t.Errorf("%d, want %d", got.Cost, want)
	}
}

// TestLayersNeverCountATokenTwice: for any omissions and reports, the layers' tokens add up to what was omitted, each scaled by the provider's count;
// none is worth more than its price; and the tokens that all layers together may have caused to be written again are at most those that were written
// or read in full.
func TestLayersNeverCountATokenTwice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	n := func(most int64) int64 {
		if rng.IntN(4) == 0 {
			return 0
		}
		return rng.Int64N(most)
	}
	for range 20_000 {
		u := chat.Usage{Input: n(50_000), Cached: n(50_000), CacheWrite: n(20_000), CacheWrite1h: n(5_000), Output: n(5_000)}
		c := savings.Call{Prices: &prices, Usage: &u, Estimate: 1 + n(150_000), MinCache: int(n(4_000)), Marks: rng.IntN(2) == 0}
		counted := u.Input + u.Cached + u.CacheWrite + u.CacheWrite1h
		var left []savings.LeftOut
		var wantTokens int64
		for _, layer := range []string{"l4", "l5", "l9"} {
			l := savings.LeftOut{Layer: layer, Tokens: n(20_000), New: n(20_000), Before: n(9_000), Again: n(200_000)}
			left = append(left, l)
			wantTokens += l.Tokens * min(counted, c.Estimate) / c.Estimate
		}
		var tokens int64
		var cost policy.Pico
		for _, s := range savings.Add(nil, &c, left) {
			tokens, cost = tokens+s.Tokens, cost+s.Cost
			if most := policy.Price(perToken).Cost(s.Tokens); s.Cost > most || s.Tokens < 0 {
				t.Fatalf("%s saved %d on %d tokens", s.Layer, s.Cost, s.Tokens)
			}
		}
		// At the least, everything that was sent would have been read from the cache.
		least := policy.Price(perCached).Cost(tokens + counted).Minus(prices.Cost(u.Input, u.Cached, u.CacheWrite, u.CacheWrite1h, 0))
		if tokens != wantTokens || cost < least {
			t.Fatalf("%d tokens, want %d; %d USD/1e12, at least %d", tokens, wantTokens, cost, least)
		}
	}
}

// TestARewriteNeverAddsToASaving: the more of the prompt was written again, the lower the saving.
func TestARewriteNeverAddsToASaving(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 5_000 {
		u := chat.Usage{Input: rng.Int64N(9_000), Cached: rng.Int64N(9_000), CacheWrite: rng.Int64N(9_000)}
		c := savings.Call{Prices: &prices, Usage: &u, Estimate: 1 + rng.Int64N(30_000), Marks: rng.IntN(2) == 0, MinCache: 1024}
		l := savings.LeftOut{Layer: "l5", Tokens: rng.Int64N(9_000)}
		before := ofLayer(savings.Add(nil, &c, []savings.LeftOut{l}), "l5").Cost
		for range 5 {
			l.Again += rng.Int64N(5_000)
			now := ofLayer(savings.Add(nil, &c, []savings.LeftOut{l}), "l5").Cost
			if now > before {
				t.Fatalf("%+v %+v: %d after %d", u, l, now, before)
			}
			before = now
		}
	}
}

// TestWhatALayerSpentIsTakenOff, even where it saved nothing.
func TestWhatALayerSpentIsTakenOff(t *testing.T) {
	all := savings.Spent([]savings.Saved{{Layer: "l5", Tokens: 100, Cost: 70}}, "l5", 90)
	if got := ofLayer(all, "l5"); got != (savings.Saved{Layer: "l5", Tokens: 100, Cost: -20}) {
		t.Errorf("%+v", got)
	}
	if got := ofLayer(savings.Spent(nil, "l5", 5), "l5"); got.Cost != -5 {
		t.Errorf("%+v", got)
	}
}
