package catalog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

// TestC15TheTableOfCaches compares each cell: provider, family, discount, premium on writes, least tokens, lifetime, who marks.
func TestC15TheTableOfCaches(t *testing.T) {
	t.Parallel()
	const claude, venice, openAI, nothing = "90% | 25% | 4000 | 5 min | marks", "50-90% | 0% | 1024 | 5 min | by prefix",
		"90% | 0% | 1024 | 5-10 min | by prefix", "0% | 0% | 0 | 0 min | by prefix"
	for _, row := range []struct {
		provider, family, want string
	}{
		{"venice", "claude", claude},
		{"venice", "llama", venice},
		{"venice", "", venice},
		{"anthropic", "claude", claude},
		{"openai", "gpt", openAI},
		{"openai", "o", openAI},
		{"bankr", "claude", claude},
		{"bankr", "gpt", openAI},
		{"bankr", "gemini", nothing},
		{"blockrun", "claude", claude},
		{"blockrun", "gpt", openAI},
		{"blockrun", "grok", nothing},
		{"else", "claude", nothing},
	} {
		if got := cells(catalog.CachingAt(policy.ProviderID(row.provider), row.family)); got != row.want {
			t.Errorf("%s, %s:\n%s, want\n%s", row.provider, row.family, got, row.want)
		}
	}
}

func cells(c catalog.Caching) string {
	discount, ttl, marks := fmt.Sprint(c.Discount), fmt.Sprint(int(c.TTL/time.Minute)), "by prefix"
	if c.LeastDiscount != c.Discount {
		discount = fmt.Sprint(c.LeastDiscount, "-", c.Discount)
	}
	if c.MaxTTL != c.TTL {
		ttl += fmt.Sprint("-", int(c.MaxTTL/time.Minute))
	}
	if c.Marks {
		marks = "marks"
	}
	return fmt.Sprintf("%s%% | %d%% | %d | %s min | %s", strings.ReplaceAll(discount, " ", ""), c.WritePremium, c.MinTokens, ttl, marks)
}

// TestC15TheTableHoldsWhereNothingElseIsSaid: a model's own least length and price of writing stand over those of its provider.
func TestC15TheTableHoldsWhereNothingElseIsSaid(t *testing.T) {
	t.Parallel()
	price := func(input, output policy.Price) *modelfile.Price {
		return &modelfile.Price{Input: &input, Output: &output}
	}
	const in, out = 4_000_000, 8_000_000
	own := policy.Price(4_400_000)
	said := price(in, out)
	said.CacheWrite = &own
	c := catalog.New(modelfile.File{})
	for _, row := range []struct {
		provider string
		m        modelfile.Model
		least    int
		write    policy.Price
	}{
		{"anthropic", modelfile.Model{ID: "claude-new", Family: "claude", Price: price(in, out)}, 4000, 5_000_000},
		{"anthropic", modelfile.Model{ID: "claude-new", Family: "claude", Price: said, MinCache: 2048}, 2048, own},
		{"bankr", modelfile.Model{ID: "claude-new", Family: "claude", Price: price(in, out)}, 4000, 5_000_000},
		{"venice", modelfile.Model{ID: "llama-new", Family: "llama", Price: price(in, out)}, 1024, in},
		{"openai", modelfile.Model{ID: "gpt-new", Family: "gpt", Price: price(in, out)}, 1024, in},
		{"else", modelfile.Model{ID: "claude-new", Family: "claude", Price: price(in, out)}, 0, in},
	} {
		m := c.At(policy.ProviderID(row.provider), row.m)
		if m.MinCache != row.least || m.Prices.CacheWrite != row.write || m.Prices.CachedInput != in {
			t.Errorf("%s, %s: at least %d tokens, %+v", row.provider, row.m.ID, m.MinCache, m.Prices)
		}
	}
}
