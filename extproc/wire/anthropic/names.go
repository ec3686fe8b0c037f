package anthropic

import (
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Names is the form of a request: the members of the Messages API.
var Names = func() *jsonx.Form {
	f := jsonx.NewForm(
		// Top level.
		"model", "messages", "max_tokens", "system", "stop_sequences", "stream", "temperature", "top_k", "top_p", "tools", "tool_choice", "thinking",
		"service_tier", "container", "context_management", "mcp_servers", "output_config", "output_format", "betas", "inference_geo", "speed",
		"cache_control", "thread", "diagnostics", "user", "background", "modalities", "web_search_options", "search_options", "enable_search",
		"search_parameters", "fallbacks", "models", "plugins", "route", "preset",
		// Nested.
		"role", "content", "type", "text", "source", "media_type", "data", "url", "file_id", "title", "context", "citations", "enabled", "tool_use_id",
		"tool_name", "is_error", "id", "name", "caller", "tool_id", "signature", "budget_tokens", "display", "effort", "format", "task_budget", "total",
		"remaining", "description", "strict", "defer_loading", "allowed_callers", "eager_input_streaming", "disable_parallel_tool_use", "ttl",
		"allowed_domains", "blocked_domains", "max_uses", "max_content_tokens", "max_characters", "user_location", "city", "region", "country",
		"timezone", "display_width_px", "display_height_px", "display_number", "enable_zoom", "edits", "trigger", "keep", "value", "clear_at_least",
		"exclude_tools", "clear_tool_inputs", "pause_after_compaction", "instructions", "authorization_token", "tool_configuration",
		"allowed_tools", "default_config", "mcp_server_name", "server_name", "skills", "skill_id", "version", "cited_text", "document_index",
		"document_title", "start_char_index", "end_char_index", "start_page_number", "end_page_number", "start_block_index", "end_block_index",
		"search_result_index", "encrypted_content", "encrypted_index", "encrypted_stdout", "page_age", "return_code", "stdout", "stderr",
		"error_code", "retrieved_at", "tool_references", "clear_at", wire.HintKey)
	f.Add(wire.Schema, "input_schema", "schema")
	f.Add(nil, "input", "input_examples")
	f.Add(jsonx.Map(f), "configs")
	f.Add(jsonx.NewForm("user_id").Others(nil), "metadata")
	return f.Clone().Add(wire.Hints, wire.HintKey)
}()
