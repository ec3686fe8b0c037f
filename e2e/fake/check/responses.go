package check

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/internal/rawjson"
)

var responsesParams = []string{
	"background", "client_metadata", "context_management", "conversation", "include", "input", "instructions", "max_output_tokens", "max_tool_calls", "metadata",
	"model", "parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_retention", "reasoning",
	"safety_identifier", "service_tier", "store", "stream", "stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs",
	"top_p", "truncation", "user",
}

var responsesTools = []string{
	"function", "custom", "web_search", "web_search_preview", "file_search", "code_interpreter", "mcp", "image_generation", "local_shell",
	"computer_use_preview", "shell", "apply_patch", "tool_search", "namespace",
}

// SealedReasoning begins what this provider encrypts, as the real one's does.
const SealedReasoning = "gAAAAAB"

// Responses reads a request of Responses. made says which responses and items the provider stores.
func Responses(h http.Header, body []byte, p *Provider, made func(id string) bool) (rawjson.Object, *Refusal) {
	o, err := rawjson.Parse(body)
	if err != nil || !isJSON(h.Get("Content-Type")) {
		return nil, Bad("", "", "We could not parse the JSON body of your request.")
	}
	if o.Str("model") == "" {
		return nil, Bad("model", "missing_required_parameter", "Missing required parameter: 'model'.")
	}
	if name := o.Unknown(append(slices.Clone(responsesParams), p.Allow...)...); name != "" {
		return nil, Bad(name, "unknown_parameter", "Unknown parameter: '%s'.", name)
	}
	if e := firstOf(o, openAIRanges, responsesLimits, responsesToolList, responsesFormat); e != nil {
		return nil, e
	}
	return o, responsesInput(o, made)
}

// responsesLimits checks the numbers that only this API has.
func responsesLimits(o object) *Refusal {
	const least = 16
	if n, ok := o.Num("max_output_tokens"); ok && n < least {
		return Bad("max_output_tokens", "integer_below_min_value", "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= %d, but got %g instead.", least, n)
	}
	return nil
}

func responsesToolList(o object) *Refusal {
	for i, t := range o.List("tools") {
		kind := t.Str("type")
		if !slices.Contains(responsesTools, kind) {
			return Bad(fmt.Sprintf("tools[%d].type", i), "invalid_value", "Invalid value: '%s'. Supported values are: 'function', 'custom', and others.", kind)
		}
		if (kind == "function" || kind == "custom") && !validToolName(t.Str("name")) {
			return Bad(fmt.Sprintf("tools[%d].name", i), "missing_required_parameter", "Missing required parameter: 'tools[%d].name'.", i)
		}
	}
	return nil
}

// idPrefixes are how the ids of items begin.
var idPrefixes = map[string]string{"message": "msg", "function_call": "fc", "reasoning": "rs", "custom_tool_call": "ctc"}

// responsesInput checks what is said as the real provider does: ids by their form, calls and outputs by each other, reasoning by its proof.
func responsesInput(o object, made func(id string) bool) *Refusal {
	if id := o.Str("previous_response_id"); id != "" {
		if !made(id) {
			return Bad("previous_response_id", "previous_response_not_found", "Previous response with id '%s' not found.", id)
		}
	} else if !o.Has("input") {
		return Bad("input", "missing_required_parameter", "Missing required parameter: 'input'.")
	}
	var open []string
	items := o.List("input")
	for i, it := range items {
		kind := cmp.Or(it.Str("type"), "message")
		at := fmt.Sprintf("input[%d]", i)
		if id, prefix := it.Str("id"), idPrefixes[kind]; id != "" && !strings.HasPrefix(id, prefix) {
			return Bad(at+".id", "invalid_value", "Invalid '%s.id': '%s'. Expected an ID that begins with '%s'.", at, id, prefix)
		}
		switch kind {
		case "message":
			if e := responsesMessage(it, at); e != nil {
				return e
			}
		case "reasoning":
			if e := responsesReasoning(it, made); e != nil {
				return e
			}
			if i == len(items)-1 || !isOfModel(items[i+1]) {
				return Bad("input", "", "Item '%s' of type 'reasoning' was provided without its required following item.", it.Str("id"))
			}
		case "item_reference":
			if !made(it.Str("id")) {
				return notKept(it)
			}
		case "function_call", "custom_tool_call":
			open = append(open, it.Str("call_id"))
		case "function_call_output", "custom_tool_call_output":
			n := slices.Index(open, it.Str("call_id"))
			if n < 0 && !o.Has("previous_response_id") {
				return Bad("input", "", "No tool call found for function call output with call_id %s.", it.Str("call_id"))
			}
			if n >= 0 {
				open = slices.Delete(open, n, n+1)
			}
		}
	}
	if len(open) > 0 {
		return Bad("input", "", "No tool output found for function call %s.", open[0])
	}
	return nil
}

func responsesMessage(it object, at string) *Refusal {
	if role := it.Str("role"); !slices.Contains([]string{"user", "assistant", "system", "developer"}, role) {
		return Bad(at+".role", "invalid_value", "Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", role)
	}
	for j, part := range it.List("content") {
		known := []string{"input_text", "input_image", "input_file", "input_audio"}
		if it.Str("role") == "assistant" {
			known = []string{"output_text", "refusal"}
		}
		if kind := part.Str("type"); !slices.Contains(known, kind) {
			return Bad(fmt.Sprintf("%s.content[%d].type", at, j), "invalid_value", "Invalid value: '%s'. Supported values are: '%s'.", kind, strings.Join(known, "', '"))
		}
	}
	return nil
}

// isOfModel reports whether an item of the input is one of the model's.
func isOfModel(it object) bool {
	kind := cmp.Or(it.Str("type"), "message")
	return kind == "message" && it.Str("role") == "assistant" || kind == "reasoning" || kind == "item_reference" || strings.HasSuffix(kind, "_call")
}

func notKept(it object) *Refusal {
	return &Refusal{
		Status: http.StatusNotFound, Kind: "invalid_request_error", Param: "input",
		Message: fmt.Sprintf("Item with id '%s' not found. Items are not persisted when `store` is set to false.", it.Str("id")),
	}
}

// responsesReasoning refuses reasoning that this provider neither encrypted nor stores.
func responsesReasoning(it object, made func(id string) bool) *Refusal {
	switch sealed := it.Str("encrypted_content"); {
	case sealed == "" && made(it.Str("id")):
	case sealed == "":
		return notKept(it)
	case !strings.HasPrefix(sealed, SealedReasoning):
		return Bad("", "invalid_encrypted_content", "The encrypted content %s... could not be verified.", sealed[:min(8, len(sealed))])
	}
	return nil
}
