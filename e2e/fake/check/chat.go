package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/internal/rawjson"
)

var openAIParams = []string{
	"messages", "model", "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
	"max_completion_tokens", "max_tokens", "metadata", "modalities", "n", "parallel_tool_calls", "prediction",
	"presence_penalty", "prompt_cache_key", "prompt_cache_retention", "reasoning_effort", "response_format",
	"safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options", "temperature",
	"tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
}

// OpenAIBody reads what OpenAI's endpoints check first: the JSON and its model.
func OpenAIBody(h http.Header, body []byte, p *Provider) (rawjson.Object, *Refusal) {
	o, err := rawjson.Parse(body)
	if err != nil || !isJSON(h.Get("Content-Type")) {
		return nil, Bad("", "", "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)")
	}
	model := o.Str("model")
	switch {
	case model == "":
		return nil, Bad("", "", "you must provide a model parameter")
	case len(p.Models) > 0 && !slices.Contains(p.Models, model):
		return nil, &Refusal{
			Status: http.StatusNotFound, Kind: "invalid_request_error", Code: "model_not_found",
			Message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", model),
		}
	}
	return o, nil
}

// Chat reads a request of Chat Completions.
func Chat(h http.Header, body []byte, p *Provider) (rawjson.Object, *Refusal) {
	o, e := OpenAIBody(h, body, p)
	if e != nil {
		return nil, e
	}
	if slices.Contains(p.Only, o.Str("model")) {
		return nil, &Refusal{
			Status: http.StatusNotFound, Kind: "invalid_request_error", Param: "model",
			Message: "This model is only supported in v1/responses and not in v1/chat/completions.",
		}
	}
	if name := o.Unknown(append(slices.Clone(openAIParams), p.Allow...)...); name != "" {
		return nil, Bad(name, "unknown_parameter", "Unknown parameter: '%s'.", name)
	}
	return o, firstOf(o, openAIRanges, openAIReasoner, openAITools, openAIFormat, openAIMessages)
}

func openAIRanges(o object) *Refusal {
	for _, r := range []struct {
		name     string
		min, max float64
	}{{"temperature", 0, 2}, {"top_p", 0, 1}, {"presence_penalty", -2, 2}, {"frequency_penalty", -2, 2}, {"n", 1, 128}, {"max_tokens", 1, 1e9}, {"max_completion_tokens", 1, 1e9}} {
		v, ok := o.Num(r.name)
		switch {
		case !ok && o.Has(r.name):
			return Bad(r.name, "invalid_type", "Invalid type for '%s': expected a decimal, but got something else instead.", r.name)
		case ok && v < r.min:
			return Bad(r.name, "decimal_below_min_value", "Invalid '%s': decimal below minimum value. Expected a value >= %g, but got %g instead.", r.name, r.min, v)
		case ok && v > r.max:
			return Bad(r.name, "decimal_above_max_value", "Invalid '%s': decimal above maximum value. Expected a value <= %g, but got %g instead.", r.name, r.max, v)
		}
	}
	if o.Has("stream_options") && !o.Bool("stream") {
		return Bad("stream_options", "", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	}
	if o.Has("max_tokens") && o.Has("max_completion_tokens") {
		return Bad("max_tokens", "invalid_parameter_combination", "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	return nil
}

// openAIReasoner refuses what models that reason refuse.
func openAIReasoner(o object) *Refusal {
	model := o.Str("model")
	if !strings.HasPrefix(model, "o1") && !strings.HasPrefix(model, "o3") && !strings.HasPrefix(model, "o4") && !strings.HasPrefix(model, "gpt-5") {
		return nil
	}
	if o.Has("max_tokens") {
		return Bad("max_tokens", "unsupported_parameter", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
	}
	if strings.HasPrefix(model, "gpt-5.") && o.Str("reasoning_effort") == "none" {
		return nil // it does not think, and may be told how to draw its words
	}
	for _, p := range []string{"temperature", "top_p"} {
		if v, ok := o.Num(p); ok && v != 1 {
			return Bad(p, "unsupported_value", "Unsupported value: '%s' does not support %g with this model. Only the default (1) value is supported.", p, v)
		}
	}
	return nil
}

func openAITools(o object) *Refusal {
	for i, t := range o.List("tools") {
		if t.Str("type") != "function" {
			return Bad(fmt.Sprintf("tools[%d].type", i), "invalid_value", "Invalid value: '%s'. Supported values are: 'function' and 'custom'.", t.Str("type"))
		}
		if k := t.Unknown("type", "function"); k != "" {
			return Bad(fmt.Sprintf("tools[%d].%s", i, k), "unknown_parameter", "Unknown parameter: 'tools[%d].%s'.", i, k)
		}
		f := t.Object("function")
		if !validToolName(f.Str("name")) {
			return Bad(fmt.Sprintf("tools[%d].function.name", i), "invalid_value", "Invalid 'tools[%d].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", i)
		}
		if k := f.Unknown("name", "description", "parameters", "strict"); k != "" {
			return Bad(fmt.Sprintf("tools[%d].function.%s", i, k), "unknown_parameter", "Unknown parameter: 'tools[%d].function.%s'.", i, k)
		}
	}
	if o.Has("tool_choice") && len(o.List("tools")) == 0 {
		return Bad("tool_choice", "", "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.")
	}
	return nil
}

func validToolName(s string) bool {
	return s != "" && len(s) <= 128 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

var openAIRoles = []string{"system", "assistant", "user", "function", "tool", "developer"}

var openAIMessageFields = []string{
	"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call", "annotations", "reasoning_content",
}

func openAIMessages(o object) *Refusal {
	if !o.Has("messages") {
		return Bad("messages", "missing_required_parameter", "Missing required parameter: 'messages'.")
	}
	ms := o.List("messages")
	if len(ms) == 0 {
		return Bad("messages", "empty_array", "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	var open []string // ids of calls that wait for their result
	for i, m := range ms {
		if e := openAIMessage(m, i, &open); e != nil {
			return e
		}
	}
	return unanswered(open, len(ms))
}

func openAIMessage(m object, i int, open *[]string) *Refusal {
	role := m.Str("role")
	if !slices.Contains(openAIRoles, role) {
		return Bad(fmt.Sprintf("messages[%d].role", i), "invalid_value", "Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", role)
	}
	if k := m.Unknown(openAIMessageFields...); k != "" {
		return Bad(fmt.Sprintf("messages[%d].%s", i, k), "unknown_parameter", "Unknown parameter: 'messages[%d].%s'.", i, k)
	}
	if role == "tool" {
		at := slices.Index(*open, m.Str("tool_call_id"))
		if at < 0 {
			return Bad(fmt.Sprintf("messages.[%d].role", i), "", "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
		}
		*open = slices.Delete(*open, at, at+1)
		return nil
	}
	if e := unanswered(*open, i); e != nil {
		return e
	}
	if calls, ok := m["tool_calls"]; ok && string(calls) == "null" {
		return Bad(fmt.Sprintf("messages[%d].tool_calls", i), "invalid_type", "Invalid type for 'messages[%d].tool_calls': expected an array of objects, but got null instead.", i)
	}
	calls := m.List("tool_calls")
	for j, c := range calls {
		if k := c.Unknown("id", "type", "function", "custom", "index"); k != "" {
			return Bad(fmt.Sprintf("messages[%d].tool_calls[%d].%s", i, j, k), "unknown_parameter", "Unknown parameter: 'messages[%d].tool_calls[%d].%s'.", i, j, k)
		}
		if k := c.Object("function").Unknown("name", "arguments"); k != "" {
			return Bad(fmt.Sprintf("messages[%d].tool_calls[%d].function.%s", i, j, k), "unknown_parameter", "Unknown parameter: 'messages[%d].tool_calls[%d].function.%s'.", i, j, k)
		}
		*open = append(*open, c.Str("id"))
		if !json.Valid([]byte(cmp.Or(c.Object("function").Str("arguments"), "{}"))) {
			return Bad(fmt.Sprintf("messages[%d].tool_calls", i), "invalid_value", "Invalid 'messages[%d].tool_calls[0].function.arguments': not valid JSON.", i)
		}
	}
	if !m.Has("content") && len(calls) == 0 && !m.Has("refusal") {
		return Bad(fmt.Sprintf("messages.[%d].content", i), "", "Invalid value for 'content': expected a string, got null.")
	}
	return openAIParts(m, i)
}

func unanswered(open []string, i int) *Refusal {
	if len(open) == 0 {
		return nil
	}
	return Bad(fmt.Sprintf("messages.[%d].role", i), "", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
}

func openAIParts(m object, i int) *Refusal {
	for j, p := range m.List("content") {
		kind := p.Str("type")
		at := fmt.Sprintf("messages[%d].content[%d]", i, j)
		if !slices.Contains([]string{"text", "image_url", "input_audio", "refusal", "file"}, kind) {
			return Bad(at+".type", "invalid_value", "Invalid value: '%s'. Supported values are: 'text', 'image_url', 'input_audio', 'refusal', 'audio', and 'file'.", kind)
		}
		if k := p.Unknown("type", "text", "image_url", "input_audio", "refusal", "file"); k != "" {
			return Bad(at+"."+k, "unknown_parameter", "Unknown parameter: '%s.%s'.", at, k)
		}
	}
	return nil
}
