package check

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Form is what the answer to a request is to look like. Nil: as it likes.
type Form struct {
	Schema json.RawMessage
	Tool   string // not "": the answer is a call of this tool
	Fenced bool   // asked for in the prompt, which models answer with a block of code
	Word   bool   // the answer is a word of the schema's enum, without quotes
	Cut    string // the reason to stop where the answer grew too long
}

// ToolPrefix begins the names of tools that are there to be answered by.
const ToolPrefix = "respond_"

// ChatForm is the form that a request of Chat Completions asks for.
func ChatForm(o object) *Form {
	const cut = "length"
	format := o.Object("response_format")
	if schema := format.Object("json_schema")["schema"]; format.Str("type") == "json_schema" && len(schema) > 0 {
		return &Form{Schema: schema, Cut: cut}
	}
	var tools []object
	for _, t := range o.List("tools") {
		tools = append(tools, t.Object("function"))
	}
	if f := toolForm(tools, "parameters", o.Str("tool_choice") == "none", cut); f != nil {
		return f
	}
	return jsonMode(format.Str("type") == "json_object", cut, o["messages"])
}

// ResponsesForm is the same for Responses.
func ResponsesForm(o object) *Form {
	const cut = "max_output_tokens"
	format := o.Object("text").Object("format")
	if schema := format["schema"]; format.Str("type") == "json_schema" && len(schema) > 0 {
		return &Form{Schema: schema, Cut: cut}
	}
	if f := toolForm(o.List("tools"), "parameters", o.Str("tool_choice") == "none", cut); f != nil {
		return f
	}
	return jsonMode(format.Str("type") == "json_object", cut, o["instructions"], o["input"])
}

// MessagesForm is the same for Messages.
func MessagesForm(o object) *Form {
	const cut = "max_tokens"
	format := o.Object("output_config").Object("format")
	if !o.Object("output_config").Has("format") {
		format = o.Object("output_format")
	}
	if schema := format["schema"]; len(schema) > 0 {
		return &Form{Schema: schema, Cut: cut}
	}
	if f := toolForm(o.List("tools"), "input_schema", o.Object("tool_choice").Str("type") == "none", cut); f != nil {
		return f
	}
	return jsonMode(false, cut, o["system"], o["messages"])
}

// GeminiForm is the same for generateContent, of an object whose members are spelled as the API does.
func GeminiForm(o object) *Form {
	const cut = "MAX_TOKENS"
	config := Camel(o.Object("generationConfig"))
	for _, key := range []string{"responseJsonSchema", "responseSchema"} {
		if config.Has(key) {
			return &Form{Schema: config[key], Cut: cut, Word: config.Str("responseMimeType") == "text/x.enum"}
		}
	}
	var tools []object
	for _, t := range o.List("tools") {
		for _, f := range Camel(t).List("functionDeclarations") {
			f = Camel(f)
			if !f.Has("parametersJsonSchema") {
				f["parametersJsonSchema"] = f["parameters"]
			}
			tools = append(tools, f)
		}
	}
	mode := Camel(Camel(o.Object("toolConfig")).Object("functionCallingConfig")).Str("mode")
	if f := toolForm(tools, "parametersJsonSchema", mode == "NONE", cut); f != nil {
		return f
	}
	return jsonMode(config.Str("responseMimeType") == "application/json", cut, o["systemInstruction"], o["contents"])
}

// anyObject stands for the schema of an object of which nothing else is said.
const anyObject = `{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}`

// askedForObject is what models without JSON mode are told.
const askedForObject = "espond ONLY with a valid JSON object"

// jsonMode is the form of an answer that no schema is enforced for: one that the prompt has, else any object, by the provider's own
// parameter (on) or by words.
func jsonMode(on bool, cut string, prompts ...json.RawMessage) *Form {
	if f := wordForm(cut, !on, prompts...); f != nil {
		return f
	}
	asks := func(p json.RawMessage) bool { return bytes.Contains(p, []byte(askedForObject)) }
	if !on && !slices.ContainsFunc(prompts, asks) {
		return nil
	}
	return &Form{Schema: json.RawMessage(anyObject), Fenced: !on, Cut: cut}
}

// toolForm is an answer by the tool that is there to be answered by.
func toolForm(tools []object, key string, none bool, cut string) *Form {
	i := slices.IndexFunc(tools, func(t object) bool { return strings.HasPrefix(t.Str("name"), ToolPrefix) })
	if i < 0 || none {
		return nil
	}
	return &Form{Schema: tools[i][key], Tool: tools[i].Str("name"), Cut: cut}
}

// askedInWords begins what models without schemas are told, at the start of a sentence or inside of one; the schema follows.
const askedInWords = "espond ONLY with valid JSON matching this"

// wordForm is the form that a prompt asks for in words.
func wordForm(cut string, fenced bool, prompts ...json.RawMessage) *Form {
	for _, p := range prompts {
		if !bytes.Contains(p, []byte(askedInWords)) {
			continue
		}
		var v any
		if json.Unmarshal(p, &v) != nil {
			continue
		}
		if schema := schemaIn(v); schema != nil {
			return &Form{Schema: schema, Fenced: fenced, Cut: cut}
		}
	}
	return nil
}

// schemaIn is the first schema that any text in a value asks for.
func schemaIn(v any) json.RawMessage {
	var inner []any
	switch v := v.(type) {
	case string:
		_, rest, ok := strings.Cut(v, askedInWords)
		i := strings.IndexByte(rest, '{')
		var schema json.RawMessage
		if !ok || i < 0 || json.NewDecoder(strings.NewReader(rest[i:])).Decode(&schema) != nil {
			return nil
		}
		return schema
	case []any:
		inner = v
	case map[string]any:
		for _, key := range []string{"content", "parts", "text"} {
			inner = append(inner, v[key])
		}
	}
	for _, e := range inner {
		if schema := schemaIn(e); schema != nil {
			return schema
		}
	}
	return nil
}
