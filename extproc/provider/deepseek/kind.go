package deepseek

import "bardo.money/gateway/internal/kind"

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	return kind.Kind{
		Name:      a.Name(),
		Section:   kind.VendorSection,
		Doc:       "DeepSeek, on the operator's key.",
		BaseURL:   "https://api.deepseek.com/v1",
		Variables: []string{"DEEPSEEK_API_KEY"},
		Format:    "openai",
		Reasoning: kind.Reasoning{Dialect: "deepseek"},
	}
}
