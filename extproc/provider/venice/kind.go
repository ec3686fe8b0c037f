package venice

import (
	"time"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	return kind.Kind{
		Name:      a.Name(),
		Section:   kind.OwnSection,
		BaseURL:   "https://api.venice.ai/api/v1",
		Variables: []string{"VENICE_API_KEY"},
		Format:    "openai",
		List:      "venice",
		Private:   true,
		PromptCache: kind.PromptCache{
			Terms: kind.CacheTerms{MinDiscount: 50, MaxDiscount: 90, MinTokens: 1024, MinTTL: 5 * time.Minute, MaxTTL: 5 * time.Minute},
			Families: map[string]kind.CacheTerms{"claude": {
				MinDiscount: 90, MaxDiscount: 90, WritePremium: 25, MinTokens: 4000, MinTTL: 5 * time.Minute, MaxTTL: 5 * time.Minute, Explicit: true,
			}},
		},
		Reasoning: kind.Reasoning{Dialect: "venice"},
		Endpoints: []kind.Endpoint{kind.ImageGeneration, kind.Speech, kind.Transcription, kind.Sealed},
		Traits: kind.Traits{
			Lacks: append(policy.VendorFeatures(), policy.Citations, policy.Compaction),
			First: kind.ForPrivacy,
			Rank:  3,
		},
	}
}
