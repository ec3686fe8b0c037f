package blockrun

import (
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	return kind.Kind{
		Name:        a.Name(),
		Section:     kind.OwnSection,
		BaseURL:     "https://api.blockrun.ai/v1",
		Format:      "openai",
		List:        "blockrun",
		Broad:       true,
		PromptCache: kind.PromptCache{OfVendor: true},
		Traits: kind.Traits{
			Lacks: policy.VendorFeatures(),
			Rank:  -1,
		},
	}
}
