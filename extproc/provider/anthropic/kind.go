package anthropic

import (
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
		Traits: kind.Traits{
			OwnKey: []policy.Feature{policy.BatchAPI},
		},
	}
}
