package check

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"bardo.money/gateway/internal/rawjson"
)

// What providers that enforce a schema refuse of it, as their documents and their own error texts have it.

// visitor looks at a schema inside another. path is where it stands, as keys and indices.
type visitor func(s object, path []string) string

// Keywords that hold schemas.
var (
	oneSchema    = []string{"items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"}
	listOfThem   = []string{"anyOf", "allOf", "oneOf", "prefixItems"}
	namedSchemas = []string{"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"}
)

// visit shows a schema and all inside it, until the first that is wrong. What a visitor says is what is.
func visit(raw json.RawMessage, path []string, look visitor) string {
	s, err := rawjson.Parse(raw)
	if err != nil {
		return ""
	}
	if wrong := look(s, path); wrong != "" {
		return wrong
	}
	for _, key := range oneSchema {
		if wrong := visit(s[key], append(slices.Clip(path), key), look); wrong != "" {
			return wrong
		}
	}
	for _, key := range listOfThem {
		var of []json.RawMessage
		_ = json.Unmarshal(s[key], &of) // another type reads as empty
		for i := range of {
			if wrong := visit(of[i], append(slices.Clip(path), key, fmt.Sprint(i)), look); wrong != "" {
				return wrong
			}
		}
	}
	for _, key := range namedSchemas {
		of := s.Object(key)
		for _, name := range rawjson.Keys(s[key]) {
			if wrong := visit(of[name], append(slices.Clip(path), key, name), look); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// kinds are the types that a schema names.
func kinds(s object) []string {
	if kind := s.Str("type"); kind != "" {
		return []string{kind}
	}
	return s.Strings("type")
}

// strictFormats are the formats that both providers know.
var strictFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}

// openAIKeywords are those of strict schemas.
var openAIKeywords = []string{
	"type", "title", "description", "enum", "const", "properties", "required", "additionalProperties", "items", "anyOf", "$ref", "$defs",
	"definitions", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
	"$schema",
}

// strictOpenAI is what OpenAI says against a strict schema; "" for nothing.
func strictOpenAI(raw json.RawMessage) string {
	root, err := rawjson.Parse(raw)
	if err != nil || root.Has("anyOf") || root.Str("type") != "object" {
		return fmt.Sprintf("schema must be a JSON Schema of 'type: \"object\"', got 'type: \"%s\"'.", cmp.Or(root.Str("type"), "None"))
	}
	return visit(raw, nil, func(s object, path []string) string {
		in := "In context=(" + quoted(path) + "), "
		if k := s.Unknown(openAIKeywords...); k != "" {
			return in + "'" + k + "' is not permitted."
		}
		if f := s.Str("format"); f != "" && !slices.Contains(strictFormats, f) {
			return in + "'" + f + "' is not a valid format."
		}
		if !s.Has("type") && !s.Has("anyOf") && !s.Has("$ref") && !s.Has("enum") && !s.Has("const") {
			return in + "schema must have a 'type' key."
		}
		if !slices.Contains(kinds(s), "object") {
			return ""
		}
		if string(s["additionalProperties"]) != "false" {
			return in + "'additionalProperties' is required to be supplied and to be false."
		}
		required := s.Strings("required")
		for _, name := range rawjson.Keys(s["properties"]) {
			if !slices.Contains(required, name) {
				return in + "'required' is required to be supplied and to be an array including every key in properties. Missing '" + name + "'."
			}
		}
		for _, name := range required {
			if _, ok := s.Object("properties")[name]; !ok {
				return in + "'required' is required to be supplied and to be an array including every key in properties. Extra required key '" + name + "' supplied."
			}
		}
		return ""
	})
}

func quoted(path []string) string {
	steps := make([]string, len(path))
	for i, step := range path {
		steps[i] = "'" + step + "'"
	}
	return strings.Join(steps, ", ")
}

var formatName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// openAIFormat checks the form of the answer, and the tools whose calls are enforced.
func openAIFormat(o object) *Refusal {
	for i, t := range o.List("tools") {
		f := t.Object("function")
		if e := strictTool(f, fmt.Sprintf("tools[%d].function.parameters", i)); e != nil {
			return e
		}
	}
	format := o.Object("response_format")
	switch kind := format.Str("type"); {
	case !o.Has("response_format"), kind == "text":
		return nil
	case kind == "json_object":
		return jsonMentioned("messages", "response_format", o["messages"])
	case kind != "json_schema":
		return Bad("response_format.type", "invalid_value", "Invalid value: '%s'. Supported values are: 'json_object', 'json_schema', and 'text'.", kind)
	}
	return jsonSchemaFormat(format.Object("json_schema"), "response_format.json_schema", "response_format")
}

// responsesFormat is the same for Responses.
func responsesFormat(o object) *Refusal {
	for i, t := range o.List("tools") {
		if e := strictTool(t, fmt.Sprintf("tools[%d].parameters", i)); e != nil {
			return e
		}
	}
	format := o.Object("text").Object("format")
	switch kind := format.Str("type"); {
	case !o.Object("text").Has("format"), kind == "text":
		return nil
	case kind == "json_object":
		return jsonMentioned("input", "text.format", slices.Concat(o["input"], o["instructions"]))
	case kind != "json_schema":
		return Bad("text.format.type", "invalid_value", "Invalid value: '%s'. Supported values are: 'json_object', 'json_schema', and 'text'.", kind)
	}
	delete(format, "type")
	return jsonSchemaFormat(format, "text.format", "text.format")
}

// jsonMentioned checks that who asks for JSON says the word.
func jsonMentioned(where, param string, prompt []byte) *Refusal {
	if bytes.Contains(bytes.ToLower(prompt), []byte("json")) {
		return nil
	}
	return Bad(where, "", "'%s' must contain the word 'json' in some form, to use '%s' of type 'json_object'.", where, param)
}

func jsonSchemaFormat(def object, at, param string) *Refusal {
	name := def.Str("name")
	switch {
	case !def.Has("name"):
		return Bad(at+".name", "missing_required_parameter", "Missing required parameter: '%s.name'.", at)
	case !formatName.MatchString(name):
		return Bad(at+".name", "invalid_value", "Invalid '%s.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", at)
	case def.Unknown("name", "description", "schema", "strict") != "":
		return Bad(at, "unknown_parameter", "Unknown parameter: '%s.%s'.", at, def.Unknown("name", "description", "schema", "strict"))
	case !def.Bool("strict"):
		return nil
	}
	if wrong := strictOpenAI(def["schema"]); wrong != "" {
		return Bad(param, "invalid_json_schema", "Invalid schema for response_format '%s': %s", name, wrong)
	}
	return nil
}

func strictTool(f object, at string) *Refusal {
	if !f.Bool("strict") {
		return nil
	}
	if wrong := strictOpenAI(f["parameters"]); wrong != "" {
		return Bad(at, "invalid_function_parameters", "Invalid schema for function '%s': %s", f.Str("name"), wrong)
	}
	return nil
}

// anthropicKeywords are those of output_config.format and of strict tools.
var anthropicKeywords = []string{
	"type", "title", "description", "enum", "const", "default", "properties", "required", "additionalProperties", "items", "minItems", "anyOf",
	"allOf", "$ref", "$defs", "definitions", "format", "pattern", "$schema", "$id",
}

// The most that the schemas of a request may have together.
const (
	mostStrictTools = 20
	mostOptional    = 24
	mostUnions      = 16
)

// enforcedCount is what the schemas of a request have together.
type enforcedCount struct{ optional, unions int }

// check is what Anthropic says against a schema that it enforces; "" for nothing.
func (c *enforcedCount) check(raw json.RawMessage) string {
	return visit(raw, nil, func(s object, _ []string) string {
		kind := cmp.Or(strings.Join(kinds(s), "', '"), "any")
		if k := s.Unknown(anthropicKeywords...); k != "" {
			return fmt.Sprintf("For '%s' type, property '%s' is not supported", kind, k)
		}
		if n, ok := s.Num("minItems"); ok && n > 1 {
			return fmt.Sprintf("For 'array' type, 'minItems' values other than 0 or 1 are not supported (got: %g)", n)
		}
		if ref := s.Str("$ref"); ref != "" && !strings.HasPrefix(ref, "#") {
			return "External schema references are not supported: " + ref
		}
		if f := s.Str("format"); f != "" && f != "uri" && !slices.Contains(strictFormats, f) {
			return "For 'string' type, 'format' value '" + f + "' is not supported"
		}
		if s.Has("anyOf") || len(kinds(s)) > 1 {
			c.unions++
		}
		if !slices.Contains(kinds(s), "object") && !s.Has("properties") {
			return ""
		}
		if string(s["additionalProperties"]) != "false" {
			return "For 'object' type, 'additionalProperties' must be explicitly set to false"
		}
		for _, name := range rawjson.Keys(s["properties"]) {
			if !slices.Contains(s.Strings("required"), name) {
				c.optional++
			}
		}
		return ""
	})
}

// recursive reports whether a schema leads back into itself.
func recursive(root json.RawMessage) bool {
	var follow func(raw json.RawMessage, open []string) bool
	follow = func(raw json.RawMessage, open []string) bool {
		return visit(raw, nil, func(s object, path []string) string {
			ref := s.Str("$ref")
			if ref == "" || len(open) == 0 && len(path) > 0 && (path[0] == "$defs" || path[0] == "definitions") {
				return "" // a definition counts where it is used
			}
			if slices.Contains(open, ref) || ref == "#" || follow(rawjson.Resolve(root, ref), append(slices.Clip(open), ref)) {
				return "recursive"
			}
			return ""
		}) != ""
	}
	return follow(root, nil)
}

// formless are the models without output_config.format and strict tools.
var formless = regexp.MustCompile(`claude-(3-|opus-4-[01]|opus-4$|opus-4-20|sonnet-4-0|sonnet-4$|sonnet-4-20)`)

// anthropicFormat checks what the API enforces: the form of the answer, and of calls of strict tools.
func anthropicFormat(o object) *Refusal {
	var count enforcedCount
	strict := 0
	for i, t := range o.List("tools") {
		if !t.Bool("strict") {
			continue
		}
		strict++
		if wrong := count.check(t["input_schema"]); wrong != "" {
			return refused("tools.%d.custom: %s", i, wrong)
		}
		if recursive(t["input_schema"]) {
			return refused("tools.%d.custom: Recursive schemas are not supported", i)
		}
	}
	config := o.Object("output_config")
	schema := config.Object("format")["schema"]
	switch {
	case strict > mostStrictTools:
		return refused("Too many strict tools (%d). The maximum number of strict tools supported is %d.", strict, mostStrictTools)
	case (strict > 0 || config.Has("format")) && formless.MatchString(o.Str("model")):
		return refused("'%s' does not support structured outputs.", o.Str("model"))
	case config.Has("format"):
		if e := anthropicOutput(o, schema, &count); e != nil {
			return e
		}
	}
	switch {
	case count.optional > mostOptional:
		return refused("Schemas contains too many optional parameters (%d), which would make grammar compilation inefficient. Reduce the number of optional parameters in your tool schemas (limit: %d).", count.optional, mostOptional)
	case count.unions > mostUnions:
		return refused("Schemas contains too many parameters with union types (%d parameters with type arrays or anyOf). This would cause exponential compilation cost. Reduce the number of nullable or union-typed parameters (limit: %d parameters with unions).", count.unions, mostUnions)
	}
	return nil
}

// anthropicOutput checks a schema of the answer, and what may not stand beside it.
func anthropicOutput(o object, schema json.RawMessage, count *enforcedCount) *Refusal {
	if wrong := count.check(schema); wrong != "" {
		return refused("output_config.format.schema: %s", wrong)
	}
	if recursive(schema) {
		return refused("output_config.format.schema: Recursive schemas are not supported")
	}
	ms := o.List("messages")
	if n := len(ms); n > 0 && ms[n-1].Str("role") == "assistant" {
		return refused("Prefilling assistant messages is not supported when output_config.format is set.")
	}
	for _, m := range ms {
		for _, b := range m.List("content") {
			if b.Object("citations").Bool("enabled") {
				return refused("output_config.format: citations cannot be enabled when an output format is set")
			}
		}
	}
	return nil
}

// geminiFormat checks what may not stand beside a form of the answer: before the third generation, functions.
func geminiFormat(model string, o object) *Refusal {
	kind := Camel(o.Object("generationConfig")).Str("responseMimeType")
	if kind != "application/json" || !strings.HasPrefix(model, "gemini-1") && !strings.HasPrefix(model, "gemini-2") {
		return nil
	}
	tools := o.List("tools")
	switch {
	case len(tools) == 0:
		return nil
	case slices.ContainsFunc(tools, func(t object) bool { return Camel(t).Has("functionDeclarations") }):
		return geminiBad("Function calling with a response mime type: 'application/json' is unsupported")
	}
	return geminiBad("Tool use with a response mime type: 'application/json' is unsupported")
}
