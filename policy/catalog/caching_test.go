package catalog_test

import (
	"testing"
	"time"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
)

// TestC15TheTableHoldsWhereNothingElseIsSaid: a model's own minimum length and write price override its provider's.
func TestC15TheTableHoldsWhereNothingElseIsSaid(t *testing.T) {
	t.Parallel()
	price := func(input, output policy.Price) *modelfile.Price {
		return &modelfile.Price{Input: &input, Output: &output}
	}
	const in, out = 4_000_000, 8_000_000
	own := policy.Price(4_400_000)
	said := price(in, out)
	said.CacheWrite = &own
	five := 5 * time.Minute
	claude := kind.CacheTerms{MinDiscount: 90, MaxDiscount: 90, WritePremium: 25, MinTokens: 4000, MinTTL: five, MaxTTL: five, Explicit: true}
	c := catalog.New(catalogtest.Embedded()).WithKinds(
		kind.Kind{Name: "anthropic", PromptCache: kind.PromptCache{Terms: claude}},
		kind.Kind{Name: "openai", PromptCache: kind.PromptCache{Terms: kind.CacheTerms{MinTokens: 1024}}},
		kind.Kind{Name: "private", PromptCache: kind.PromptCache{
			Terms: kind.CacheTerms{MinTokens: 1024}, Families: map[string]kind.CacheTerms{"claude": claude},
		}},
		kind.Kind{Name: "marketplace", PromptCache: kind.PromptCache{OfVendor: true}},
	)
	for _, row := range []struct {
		provider string
		m        modelfile.Model
		least    int
		write    policy.Price
	}{
		{"anthropic", modelfile.Model{ID: "claude-new", Family: "claude", Price: price(in, out)}, 4000, 5_000_000},
		{"anthropic", modelfile.Model{ID: "claude-new", Family: "claude", Price: said, MinCache: 2048}, 2048, own},
		{"marketplace", modelfile.Model{ID: "claude-new", Family: "claude", Price: price(in, out)}, 4000, 5_000_000},
		{"private", modelfile.Model{ID: "llama-new", Family: "llama", Price: price(in, out)}, 1024, in},
		{"openai", modelfile.Model{ID: "gpt-new", Family: "gpt", Price: price(in, out)}, 1024, in},
		{"else", modelfile.Model{ID: "claude-new", Family: "claude", Price: price(in, out)}, 0, in},
	} {
		m := c.At(policy.ProviderID(row.provider), row.m)
		if m.MinCache != row.least || m.Prices.CacheWrite != row.write || m.Prices.CachedInput != in {
			t.Errorf("%s, %s: at least %d tokens, %+v", row.provider, row.m.ID, m.MinCache, m.Prices)
		}
	}
}
