package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// TestC15TheTableOfCaches compares each cell: provider, family, discount, write premium, minimum tokens, lifetime, explicit marks.
func TestC15TheTableOfCaches(t *testing.T) {
	t.Parallel()
	const claude, venice, openAI, nothing = "90% | 25% | 4000 | 5 min | marks", "50-90% | 0% | 1024 | 5 min | by prefix",
		"90% | 0% | 1024 | 5-10 min | by prefix", "0% | 0% | 0 | 0 min | by prefix"
	c, err := settings.Catalog(&config.Config{})
	if err != nil {
		t.Fatal(err)
	}
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
		if got := cells(c.CacheTerms(policy.ProviderID(row.provider), row.family)); got != row.want {
			t.Errorf("%s, %s:\n%s, want\n%s", row.provider, row.family, got, row.want)
		}
	}
}

// cells formats terms as a row of the table.
func cells(c kind.CacheTerms) string {
	discount, ttl, marks := fmt.Sprint(c.MaxDiscount), fmt.Sprint(int(c.MinTTL/time.Minute)), "by prefix"
	if c.MinDiscount != c.MaxDiscount {
		discount = fmt.Sprint(c.MinDiscount, "-", c.MaxDiscount)
	}
	if c.MaxTTL != c.MinTTL {
		ttl += fmt.Sprint("-", int(c.MaxTTL/time.Minute))
	}
	if c.Explicit {
		marks = "marks"
	}
	return fmt.Sprintf("%s%% | %d%% | %d | %s min | %s", strings.ReplaceAll(discount, " ", ""), c.WritePremium, c.MinTokens, ttl, marks)
}
