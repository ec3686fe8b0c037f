package reasoning_test

import "bardo.money/gateway/internal/kind"

// kinds are kinds of providers as their adapters describe them; cmd/bardo tests the names. Others have the zero value.
var kinds = map[string]kind.Reasoning{
	"anthropic": {Dialect: "anthropic"},
	"deepseek":  {Dialect: "deepseek"},
	"openai":    {Dialect: "openai"},
	"qwen":      {Dialect: "qwen"},
	"venice":    {Dialect: "venice"},
	"openrouter": {Dialect: "openrouter", Vendors: map[string]string{
		"anthropic": "anthropic", "openai": "responses", "google": "gemini", "deepseek": "deepseek", "qwen": "qwen",
	}},
}
