package chatcompletion

import (
	"cmp"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// hasBreakdown reports whether a usage object counts tokens that the other dialects do not count separately.
func hasBreakdown(v jsonx.Value) bool {
	in, out := v.Get(promptDetails), v.Get("completion_tokens_details")
	return wire.Count(in.Get("audio_tokens"))+wire.Count(out.Get("audio_tokens"))+
		wire.Count(out.Get("accepted_prediction_tokens"))+wire.Count(out.Get("rejected_prediction_tokens")) > 0
}

// promptDetails is the member of a usage object with the parts of the prompt's tokens.
const promptDetails = "prompt_tokens_details"

// TotalTokens is the total of a usage object.
func TotalTokens(v jsonx.Value) int64 { return wire.Billed(v, "total_tokens") }

// ReadUsage reads the usage object of an answer in any of OpenAI's formats that count prompt and completion tokens. Providers omit members,
// set them to null, or write floats.
func ReadUsage(v jsonx.Value) chat.Usage {
	prompt := wire.Billed(v, "prompt_tokens")
	cached := min(prompt, cmp.Or(
		wire.Discount(v, promptDetails, "cached_tokens"),
		wire.Discount(v, "prompt_cache_hit_tokens"), // DeepSeek
		wire.Discount(v, "cached_tokens"),           // Moonshot
	))
	written := min(prompt-cached, cmp.Or(
		wire.Billed(v, promptDetails, "cache_write_tokens"),    // OpenRouter
		wire.Billed(v, promptDetails, "cache_creation_tokens"), // LiteLLM, which also writes Anthropic's own member
		wire.Billed(v, "cache_creation_input_tokens"),
	))
	u := chat.Usage{
		Input:      prompt - cached - written,
		Cached:     cached,
		CacheWrite: written,
		Output:     wire.Billed(v, "completion_tokens"),
		Reasoning:  wire.Billed(v, "completion_tokens_details", "reasoning_tokens"),
		Searches: cmp.Or(
			wire.Billed(v, "num_search_queries"),                     // Perplexity
			wire.Billed(v, "server_tool_use", "web_search_requests"), // OpenRouter
		),
	}
	// xAI does not count reasoning in completion_tokens; its total shows it.
	if u.Reasoning > 0 && wire.Billed(v, "total_tokens") == prompt+u.Output+u.Reasoning {
		u.Output += u.Reasoning
	}
	return u
}
