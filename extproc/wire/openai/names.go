package openai

import (
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Names is the form of a request: the members of OpenAI's API, of compatible servers, and of the legacy completions.
var Names = func() *jsonx.Form {
	f := jsonx.NewForm(
		// Top level.
		"model", "messages", "stream", "stream_options", MaxTokens, MaxCompletionTokens, "n", "temperature", "top_p", "top_k", "min_p", "top_a",
		"seed", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty", "logprobs", "top_logprobs", "user", "safety_identifier",
		"store", "modalities", "audio", "prediction", "prompt_cache_key", "prompt_cache_retention", keyReasoning, keyEffort, keyThinking, keyLevel,
		keyBudget, keyEnable, "enable_search", keyFormat, "service_tier", "tools", "tool_choice", "parallel_tool_calls", "functions",
		"function_call", "verbosity", "web_search_options", "background", "speed", "inference_geo", "container", "mcp_servers", "search_options",
		"fallbacks",
		// Top level of the legacy completions, and of compatible servers.
		"prompt", "prompt_embeds", "suffix", "echo", "best_of", "models", "route", "provider", "plugins", "transforms", "usage",
		"include_reasoning", "preset", "venice_parameters", "search_parameters", "return_citations", "return_images", "search_recency_filter", "search_domain_filter", "ignore_eos", "min_tokens",
		// Nested.
		"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "type", "text", "image_url", "url", "detail", "input_audio", "video_url",
		"data", "format", "file", "file_id", "file_data", "filename", "document_url", "document_name", "function", "custom", "description", "strict", "json_schema", "grammar",
		"definition", "syntax", "mode", "allowed_tools", "include_usage", "include_obfuscation", "include", "effort", "enabled", "exclude", "summary",
		"generate_summary", "budget_tokens", "cache_control", "ttl", "reasoning_content", keyDetails, "signature", "encrypted_content", "id", "index",
		"is_error", "voice", "search_context_size", "user_location", "approximate", "city", "country", "region", "timezone", "order",
		"allow_fallbacks", "require_parameters", "data_collection", "zdr", "only", "ignore", "quantizations", "sort", "max_price", "completion",
		"request", "image", "engine", "max_results", "search_prompt", "pdf", "annotations", "url_citation", "title", "start_index", "end_index",
		"include_venice_system_prompt", "no_system_prompt", "enable_web_search", "enable_web_scraping", "enable_x_search", "enable_web_citations", "character_slug",
		"strip_thinking_response", "disable_thinking", wire.HintKey)
	f.Add(wire.Schema, "parameters", "schema", "guided_json")
	f.Add(nil, "metadata", "logit_bias", "arguments", "input")
	f.Add(jsonx.NewForm(keyEnable, keyThinking), keyTemplate)
	return f.Clone().Add(wire.Hints, wire.HintKey)
}()
