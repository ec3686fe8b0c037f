package responses

import (
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Names is the form of a request: the members of the Responses API.
var Names = func() *jsonx.Form {
	f := jsonx.NewForm(
		// Top level.
		"background", "context_management", "conversation", "include", "instructions", "max_output_tokens", "max_tool_calls", "model",
		"parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_retention", "reasoning", "safety_identifier",
		"service_tier", "store", "stream", "stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user", "speed",
		"inference_geo", "mcp_servers", "modalities", "web_search_options", "search_options", "enable_search", "search_parameters", "fallbacks",
		// Nested.
		"role", "content", "type", "image_url", "detail", "file_id", "file_data", "file_url", "filename", "input_audio", "data", "id", "call_id", "name",
		"namespace", "status", "summary", "encrypted_content", "signature", "refusal", "annotations", "logprobs", "phase", "action", "command",
		"commands", "timeout_ms", "working_directory", "max_output_length", "queries", "query", "sources", "output", "results", "score", "code", "container_id",
		"logs", "outputs", "url", "result", "server_label", "server_url", "server_description", "connector_id", "authorization", "allowed_tools",
		"tool_names", "read_only", "require_approval", "always", "never", "approve", "approval_request_id", "reason", "error", "description",
		"strict", "defer_loading", "vector_store_ids", "filters", "max_num_results", "ranking_options", "ranker", "score_threshold",
		"search_context_size", "search_content_types", "external_web_access", "user_location", "approximate", "city", "country", "region",
		"timezone", "allowed_domains", "blocked_domains", "size", "quality", "background", "moderation", "output_format", "output_compression",
		"input_fidelity", "input_image_mask", "partial_images", "mode", "format", "grammar", "definition", "syntax", "custom", "function",
		"verbosity", "effort", "generate_summary", "include_obfuscation", "compact_threshold", "version", "container", "file_ids", "memory_limit",
		"network_policy", "skills", "skill_id", "environment", "display_width", "display_height", "acknowledged_safety_checks",
		"pending_safety_checks", "operation", "diff", "path", "execution", "title", "start_index", "end_index", "index", wire.HintKey)
	f.Add(wire.Schema, "parameters", "schema", "input_schema")
	f.Add(nil, "metadata", "arguments", "input", "env", "headers", "attributes")
	f.Add(jsonx.Map(f), "variables")
	return f.Clone().Add(f, "input").Add(wire.Hints, wire.HintKey)
}()
