package anthropic

import (
	"time"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	return kind.Kind{
		Name:         a.Name(),
		Section:      kind.VendorSection,
		Doc:          "Anthropic, on the operator's key.",
		BaseURL:      "https://api.anthropic.com/v1",
		Variables:    []string{"ANTHROPIC_API_KEY"},
		Format:       "anthropic",
		CountsTokens: true,
		Batches:      "anthropic",
		PromptCache: kind.PromptCache{Terms: kind.CacheTerms{
			MinDiscount: 90, MaxDiscount: 90, WritePremium: 25, MinTokens: 4000, MinTTL: 5 * time.Minute, MaxTTL: 5 * time.Minute, Explicit: true,
		}},
		Reasoning: kind.Reasoning{Dialect: "anthropic"},
		Traits: kind.Traits{
			OwnKey: []policy.Feature{policy.BatchAPI},
		},
	}
}
