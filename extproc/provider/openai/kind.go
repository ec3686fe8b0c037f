package openai

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
		Doc:          "OpenAI, on the operator's key.",
		BaseURL:      "https://api.openai.com/v1",
		Variables:    []string{"OPENAI_API_KEY"},
		Format:       "openai",
		Responses:    true,
		CountsTokens: true,
		Batches:      "openai",
		PromptCache: kind.PromptCache{Terms: kind.CacheTerms{
			MinDiscount: 90, MaxDiscount: 90, MinTokens: 1024, MinTTL: 5 * time.Minute, MaxTTL: 10 * time.Minute,
		}},
		Reasoning: kind.Reasoning{Dialect: "openai"},
		Endpoints: []kind.Endpoint{
			kind.Moderations, kind.ImageGeneration, kind.ImageEdit, kind.ImageVariation, kind.Speech, kind.Transcription, kind.Translation, kind.Realtime,
		},
		Traits: kind.Traits{
			OwnKey: []policy.Feature{policy.BatchAPI, policy.ResponsesAPI},
		},
	}
}
