package venice

import (
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
		Traits: kind.Traits{
			Lacks: append(policy.VendorFeatures(), policy.Citations, policy.Compaction),
			First: kind.ForPrivacy,
			Rank:  3,
		},
	}
}
