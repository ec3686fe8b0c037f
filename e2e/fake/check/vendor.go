package check

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// The vendors' own rules, as their documents state them.

var veniceParameters = []string{
	"character_slug", "strip_thinking_response", "disable_thinking", "enable_web_search", "enable_web_scraping", "enable_web_citations",
	"include_search_results_in_stream", "return_search_results_as_documents", "include_venice_system_prompt", "enable_e2ee",
}

// Venice refuses unknown venice_parameters, and schemas that are not strict.
func Venice(o object) *Refusal {
	p := o.Object("venice_parameters")
	if k := p.Unknown(veniceParameters...); k != "" {
		return Bad("venice_parameters."+k, "", "Invalid request parameters: unrecognized key '%s' in venice_parameters", k)
	}
	if p.Has("enable_web_search") && !slices.Contains([]string{"off", "on", "auto"}, p.Str("enable_web_search")) {
		return Bad("venice_parameters.enable_web_search", "", "Invalid request parameters: enable_web_search must be off, on or auto")
	}
	if e := reasoningRules(o, "none", "minimal", "low", "medium", "high", "xhigh", "max"); e != nil {
		return e
	}
	if e := veniceFormat(o); e != nil {
		return e
	}
	if strings.HasSuffix(o.Str("model"), "-tee") && p.Str("enable_web_search") == "on" {
		return Bad("venice_parameters.enable_web_search", "", "Invalid request parameters: web search is not available in an enclave")
	}
	return nil
}

// veniceFormat: a schema is strict, and not every model has them.
func veniceFormat(o object) *Refusal {
	format := o.Object("response_format")
	model := o.Str("model")
	switch {
	case format.Str("type") != "json_schema":
		return nil
	case strings.Contains(model, "claude"), strings.Contains(model, "deepseek-r1"):
		return Bad("response_format", "", "Invalid request parameters: response_format is not supported by %s", model)
	case !format.Object("json_schema").Bool("strict"):
		return Bad("response_format.json_schema.strict", "", "Invalid request parameters: json_schema needs strict: true")
	}
	return nil
}

// reasoningRules checks the object by which a vendor is told how hard to think.
func reasoningRules(o object, efforts ...string) *Refusal {
	r := o.Object("reasoning")
	effort := r.Str("effort")
	switch {
	case r.Has("effort") && !slices.Contains(efforts, effort):
		return Bad("reasoning.effort", "invalid_value", "Invalid value for reasoning.effort: '%s'", effort)
	case r.Has("effort") && r.Has("max_tokens"):
		return Bad("reasoning", "", `Only one of "reasoning.effort" and "reasoning.max_tokens" can be specified`)
	case o.Has("reasoning") && o.Has("reasoning_effort"):
		return Bad("reasoning", "", `Only one of "reasoning" and "reasoning_effort" can be specified`)
	}
	return nil
}

var openRouterPreferences = []string{
	"order", "allow_fallbacks", "require_parameters", "data_collection", "zdr", "only", "ignore", "quantizations", "sort", "max_price",
}

// OpenRouter refuses what it does not know of its routing preferences.
func OpenRouter(o object) *Refusal {
	p := o.Object("provider")
	switch k := p.Unknown(openRouterPreferences...); {
	case k != "":
		return Bad("provider."+k, "", "provider: Unrecognized key: \"%s\"", k)
	case p.Has("data_collection") && p.Str("data_collection") != "deny" && p.Str("data_collection") != "allow":
		return Bad("provider.data_collection", "", "provider.data_collection: Invalid option")
	case p.Has("sort") && !slices.Contains([]string{"price", "throughput", "latency"}, p.Str("sort")):
		return Bad("provider.sort", "", "provider.sort: Invalid option")
	}
	if !strings.Contains(o.Str("model"), "/") {
		return Bad("model", "", "%s is not a valid model ID", o.Str("model"))
	}
	return reasoningRules(o, "none", "minimal", "low", "medium", "high", "xhigh", "max")
}

// BlockRun holds to its rules: each family is told how hard to think in its own way, and Claude is served in its own format.
func BlockRun(o object) *Refusal {
	model := o.Str("model")
	gemini, claude := strings.Contains(model, "gemini"), strings.Contains(model, "claude")
	level := o.Str("thinking_level")
	switch {
	case claude:
		return Bad("model", "", "use /v1/messages for %s", model)
	case o.Has("thinking_level") && (!gemini || level != "low" && level != "high"):
		return Bad("thinking_level", "", "thinking_level '%s' is not supported by %s", level, model)
	case o.Has("reasoning") && !strings.Contains(model, "gpt") && !strings.HasPrefix(model[strings.LastIndexByte(model, '/')+1:], "o"):
		return Bad("reasoning", "", "reasoning is not supported by %s", model)
	case o.Object("reasoning").Unknown("effort", "summary") != "":
		return Bad("reasoning", "", "Unknown parameter: 'reasoning.%s'.", o.Object("reasoning").Unknown("effort", "summary"))
	}
	return reasoningRules(o, "none", "minimal", "low", "medium", "high", "xhigh")
}

// DeepSeek holds to its rules: reasoning of turns with tools must come back while the model thinks; a schema is not enforced.
func DeepSeek(o object) *Refusal {
	kind := o.Object("thinking").Str("type")
	if o.Has("thinking") && kind != "enabled" && kind != "disabled" {
		return Bad("thinking", "invalid_request_error", "Failed to deserialize the JSON body into the target type: thinking: unknown variant `%s`, expected `enabled` or `disabled`", kind)
	}
	most := 65536.0
	if strings.HasPrefix(o.Str("model"), "deepseek-v4") {
		most = 393216
	}
	if n, ok := o.Num("max_tokens"); ok && n > most {
		return Bad("max_tokens", "invalid_request_error", "Invalid max_tokens value, the valid range of max_tokens is [1, %g]", most)
	}
	if o.Object("response_format").Str("type") == "json_schema" {
		return Bad("response_format", "invalid_request_error", "This response_format type is unavailable now")
	}
	if kind == "enabled" || kind == "" && o.Str("model") == "deepseek-reasoner" {
		return deepSeekHistory(o.List("messages"))
	}
	return nil
}

func deepSeekHistory(ms []object) *Refusal {
	for _, m := range ms {
		if m.Str("role") == "assistant" && len(m.List("tool_calls")) > 0 && m.Str("reasoning_content") == "" {
			return Bad("", "invalid_request_error", "The `reasoning_content` in the thinking mode must be passed back to the API.")
		}
	}
	return nil
}

// Qwen holds to its rules: open models think in streamed answers only.
func Qwen(o object) *Refusal {
	_, said := o["enable_thinking"]
	budget, hasBudget := o.Num("thinking_budget")
	switch {
	case strings.HasPrefix(o.Str("model"), "qwen3-") && !o.Bool("stream") && (!said || o.Bool("enable_thinking")):
		return &Refusal{
			Status: http.StatusBadRequest, Kind: "invalid_request_error", Code: "invalid_parameter_error",
			Message: "parameter.enable_thinking must be set to false for non-streaming calls",
		}
	case hasBudget && budget < 1:
		return Bad("thinking_budget", "invalid_parameter_error", "thinking_budget must be a positive integer")
	}
	return nil
}

// Groq refuses parameters that its API does not have, and members of messages: it has an assistant's reasoning, and not what OpenAI's answers have.
func Groq(o object) *Refusal {
	for _, name := range []string{"logprobs", "top_logprobs", "logit_bias"} {
		if _, ok := o[name]; ok {
			return Bad("", name, "property '%s' is unsupported", name)
		}
	}
	return strictMessages(o, []string{"reasoning", "function_call"}, func(i int, role, key string) *Refusal {
		return Bad("", "", "'messages.%d' : for 'role:%s' the following must be satisfied[('messages.%d' : property '%s' is unsupported)]", i, role, i, key)
	})
}

// Cerebras refuses members of messages that its API does not have.
func Cerebras(o object) *Refusal {
	return strictMessages(o, []string{"reasoning"}, func(i int, role, key string) *Refusal {
		return Bad("validation_error", "wrong_api_format", "messages.%d.%s.%s: property 'messages.%d.%s.%s' is unsupported", i, role, key, i, role, key)
	})
}

// Mistral refuses every member that its API does not have, in the words of its validator.
func Mistral(o object) *Refusal {
	if o.Has("stream_options") {
		return forbidden("stream_options")
	}
	return strictMessages(o, []string{"prefix"}, func(i int, role, key string) *Refusal {
		return forbidden(fmt.Sprintf("messages.%d.%s.%s", i, role, key))
	})
}

func forbidden(at string) *Refusal {
	return &Refusal{Status: http.StatusUnprocessableEntity, Kind: "invalid_request_error", Message: "extra_forbidden: " + at + ": Extra inputs are not permitted"}
}

// strictMessages refuses the first unknown member of a message, a part of its content, or a tool. extra is what an assistant's message has beyond
// content and calls. It is not checked whether members are null.
func strictMessages(o object, extra []string, refusal func(i int, role, key string) *Refusal) *Refusal {
	of := map[string][]string{
		"assistant": append([]string{"role", "content", "tool_calls", "name"}, extra...),
		"tool":      {"role", "content", "tool_call_id", "name"},
	}
	for i, m := range o.List("messages") {
		role := m.Str("role")
		known := of[role]
		if known == nil {
			known = []string{"role", "content", "name"}
		}
		for key := range m {
			if !slices.Contains(known, key) {
				return refusal(i, role, key)
			}
		}
		for _, part := range m.List("content") {
			if key := part.Unknown("type", "text", "image_url", "thinking", "document_url"); key != "" {
				return refusal(i, role, "content."+key)
			}
		}
		if role == "assistant" && !m.Has("content") && len(m.List("tool_calls")) == 0 {
			return Bad("", "3240", "Assistant message must have either content or tool_calls, but not none.")
		}
	}
	return nil
}

// Bedrock serves Claude in Anthropic's format only.
func Bedrock(o object) *Refusal {
	if model := o.Str("model"); strings.HasPrefix(model, "anthropic.") {
		return Bad("model", "", "The model '%s' does not support the '/v1/chat/completions' API", model)
	}
	return nil
}
