package openai

import (
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
		Traits: kind.Traits{
			OwnKey: []policy.Feature{policy.BatchAPI, policy.ResponsesAPI},
		},
	}
}
