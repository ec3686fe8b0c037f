package openrouter

import (
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	return kind.Kind{
		Name:         a.Name(),
		Section:      kind.OwnSection,
		BaseURL:      "https://openrouter.ai/api/v1",
		Variables:    []string{"OPENROUTER_API_KEY"},
		Format:       "openai",
		List:         "openrouter",
		Broad:        true,
		CacheControl: true,
		Reasoning: kind.Reasoning{Dialect: "openrouter", Vendors: map[string]string{
			"anthropic": "anthropic", "openai": "responses", "google": "gemini", "deepseek": "deepseek", "qwen": "qwen", "mistralai": "mistral",
			"moonshotai": "kimi", "bytedance-seed": "seed", "bytedance": "seed",
		}},
		Traits: kind.Traits{
			Lacks:          policy.VendorFeatures(),
			Rank:           1,
			ComparedByCost: true,
			ReadsDocuments: true,
			Marketplace:    true,
		},
	}
}
