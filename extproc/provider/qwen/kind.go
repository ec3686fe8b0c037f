package qwen

import "bardo.money/gateway/internal/kind"

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	return kind.Kind{
		Name:      a.Name(),
		Section:   kind.VendorSection,
		Doc:       "Qwen (Alibaba Model Studio), on the operator's key.",
		BaseURL:   "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
		Variables: []string{"DASHSCOPE_API_KEY", "QWEN_API_KEY"},
		Format:    "openai",
		Reasoning: kind.Reasoning{Dialect: "qwen"},
	}
}
