package reasoning_test

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

func TestTheConfigurationKnowsEveryDialect(t *testing.T) {
	for _, name := range append(reasoning.Names(), reasoning.Auto) {
		if _, err := config.ParseModels("m.yaml", []byte("models: [{id: m, reasoning: "+name+"}]")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := config.ParseModels("m.yaml", []byte("models: [{id: m, reasoning: thinking}]")); err == nil {
		t.Error("a dialect that nobody knows is taken")
	}
}

func TestDialectsOfProvidersAndModels(t *testing.T) {
	for _, row := range []struct {
		about  string
		kind   string
		to     policy.Resolution
		format chat.Dialect
		name   string
		tags   int
		shows  reasoning.Visibility
	}{
		{"Anthropic", "anthropic", policy.Resolution{Family: "claude"}, chat.Anthropic, "anthropic", 0, reasoning.Visible},
		{"a Claude that thinks as it sees fit", "anthropic", policy.Resolution{Family: "claude", AdaptiveThinking: true}, chat.Anthropic, "anthropic", 0, reasoning.Summarized},
		{"a Claude at Bankr", "bankr", policy.Resolution{Family: "claude"}, chat.Anthropic, "anthropic", 0, reasoning.Visible},
		{"a GPT at Bankr", "bankr", policy.Resolution{Family: "gpt"}, chat.OpenAI, "openai", 0, reasoning.Visible},
		{"OpenAI", "openai", policy.Resolution{Family: "gpt"}, chat.OpenAI, "openai", 0, reasoning.Visible},
		{"OpenAI's Responses", "openai", policy.Resolution{Family: "gpt"}, chat.Responses, "responses", 0, reasoning.Summarized},
		{"Google", "google", policy.Resolution{Family: "gemini"}, chat.Gemini, "gemini", 0, reasoning.Summarized},
		{"DeepSeek", "deepseek", policy.Resolution{Family: "deepseek"}, chat.OpenAI, "deepseek", 1, reasoning.Visible},
		{"Qwen", "qwen", policy.Resolution{Family: "qwen"}, chat.OpenAI, "qwen", 1, reasoning.Visible},
		{"Venice", "venice", policy.Resolution{Family: "deepseek"}, chat.OpenAI, "venice", 1, reasoning.Visible},
		{"a Claude at Venice", "venice", policy.Resolution{Family: "claude"}, chat.OpenAI, "venice", 0, reasoning.Visible},
		{"OpenRouter over Anthropic", "openrouter", policy.Resolution{Upstream: "anthropic/claude-sonnet-4.5", Family: "claude"}, chat.OpenAI, "openrouter", 0, reasoning.Visible},
		{"OpenRouter over OpenAI", "openrouter", policy.Resolution{Upstream: "openai/gpt-5", Family: "gpt"}, chat.OpenAI, "openrouter", 0, reasoning.Summarized},
		{"OpenRouter over Google", "openrouter", policy.Resolution{Upstream: "google/gemini-2.5-pro", Family: "gemini"}, chat.OpenAI, "openrouter", 0, reasoning.Summarized},
		{"OpenRouter over DeepSeek", "openrouter", policy.Resolution{Upstream: "deepseek/deepseek-r1", Family: "deepseek"}, chat.OpenAI, "openrouter", 1, reasoning.Visible},
		{"OpenRouter over anybody else", "openrouter", policy.Resolution{Upstream: "z-ai/glm-4.6", Family: "glm"}, chat.OpenAI, "openrouter", 1, reasoning.Visible},
		{"a model that somebody serves", "custom", policy.Resolution{Family: "llama"}, chat.OpenAI, "vllm", 1, reasoning.Visible},
		{"in Anthropic's format", "custom", policy.Resolution{Family: "glm"}, chat.Anthropic, "vllm", 1, reasoning.Visible},
		{"Magistral", "custom", policy.Resolution{Family: "magistral"}, chat.OpenAI, "mistral", 2, reasoning.Visible},
		{"none", "custom", policy.Resolution{Family: "qwen", Reasoning: "none"}, chat.OpenAI, "none", 0, reasoning.Visible},
		{"named", "custom", policy.Resolution{Family: "qwen", Reasoning: "seed"}, chat.OpenAI, "seed", 1, reasoning.Visible},
		{"auto", "custom", policy.Resolution{Family: "qwen", Reasoning: "auto"}, chat.OpenAI, "qwen", 1, reasoning.Visible},
	} {
		d := reasoning.Of(kinds[row.kind], &row.to, row.format)
		if d.Name != row.name || len(d.Tags) != row.tags || d.Visibility != row.shows || d.Discount != 1 {
			t.Errorf("%s: %s with %d tags shows %s (%v), want %s, %d, %s", row.about, d.Name, len(d.Tags), d.Visibility, d.Discount, row.name, row.tags, row.shows)
		}
	}
}
