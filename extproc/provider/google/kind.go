package google

import (
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	return kind.Kind{
		Name:      a.Name(),
		Section:   kind.VendorSection,
		Doc:       "Google (Gemini), on the operator's key.",
		BaseURL:   "https://generativelanguage.googleapis.com/v1beta",
		Variables: []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"},
		Format:    "gemini",
		Traits: kind.Traits{
			OwnKey: []policy.Feature{policy.ExplicitCaching},
		},
	}
}
