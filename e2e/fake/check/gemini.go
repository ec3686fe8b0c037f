package check

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/internal/rawjson"
)

var geminiMembers = []string{"contents", "systemInstruction", "tools", "toolConfig", "safetySettings", "generationConfig", "cachedContent", "labels", "serviceTier", "store"}

// Gemini reads a request of generateContent, and spells its members as the API does.
func Gemini(model string, h http.Header, body []byte, p *Provider) (rawjson.Object, *Refusal) {
	o, err := rawjson.Parse(body)
	if err != nil || !isJSON(h.Get("Content-Type")) {
		return nil, geminiBad("Invalid JSON payload received. Unexpected token.")
	}
	if len(p.Models) > 0 && !slices.Contains(p.Models, model) {
		return nil, &Refusal{Status: http.StatusNotFound, Kind: "NOT_FOUND", Message: fmt.Sprintf("models/%s is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.", model)}
	}
	o = Camel(o)
	if name := o.Unknown(append(slices.Clone(geminiMembers), p.Allow...)...); name != "" {
		return nil, geminiUnknown(name, "")
	}
	for _, look := range []func(string, object) *Refusal{geminiConfig, geminiTools, geminiFormat, geminiContents} {
		if e := look(model, o); e != nil {
			return nil, e
		}
	}
	return o, nil
}

// Camel spells an object's members as the API does: it takes snake_case, too.
func Camel(o object) rawjson.Object {
	out := make(object, len(o))
	for k, v := range o {
		for i := strings.IndexByte(k, '_'); i > 0 && i+1 < len(k); i = strings.IndexByte(k, '_') {
			k = k[:i] + strings.ToUpper(k[i+1:i+2]) + k[i+2:]
		}
		out[k] = v
	}
	return out
}

// geminiSigned begins what a signature holds.
const geminiSigned = "gemini made this of: "

// GeminiSignature is the signature that a fake of this dialect gives an answer that began with a thought, and takes back.
func GeminiSignature(thought string) string {
	return base64.StdEncoding.EncodeToString([]byte(geminiSigned + thought))
}

// isGeminiSignature reports whether a signature is one of these, in either alphabet, or the one that stands for none.
func isGeminiSignature(s string) bool {
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "="))
	return s == "skip_thought_signature_validator" || err == nil && bytes.HasPrefix(b, []byte(geminiSigned))
}

var geminiParams = []string{
	"temperature", "topP", "topK", "candidateCount", "maxOutputTokens", "stopSequences", "responseMimeType", "responseSchema", "responseJsonSchema",
	"presencePenalty", "frequencyPenalty", "seed", "responseLogprobs", "logprobs", "thinkingConfig", "responseModalities", "speechConfig",
	"imageConfig", "mediaResolution", "enableEnhancedCivicAnswers",
}

func geminiConfig(model string, o object) *Refusal {
	c := Camel(o.Object("generationConfig"))
	if name := c.Unknown(geminiParams...); name != "" {
		return geminiUnknown(name, "generation_config")
	}
	for _, r := range []struct {
		name     string
		min, max float64
	}{{"temperature", 0, 2}, {"topP", 0, 1}, {"topK", 1, 1 << 20}, {"candidateCount", 1, 8}, {"maxOutputTokens", 1, 1 << 20}, {"presencePenalty", -2, 2}, {"frequencyPenalty", -2, 2}, {"seed", -1 << 31, 1<<31 - 1}} {
		v, ok := c.Num(r.name)
		if c.Has(r.name) && (!ok || v < r.min || v > r.max) {
			return geminiBad("* GenerateContentRequest.generation_config.%s: %s must be in the range [%g, %g].", r.name, r.name, r.min, r.max)
		}
	}
	if n := len(c.Strings("stopSequences")); n > 5 {
		return geminiBad("* GenerateContentRequest.generation_config.stop_sequences: too many stop sequences: %d, at most 5.", n)
	}
	if slices.Contains(c.Strings("stopSequences"), "") {
		return geminiBad("* GenerateContentRequest.generation_config.stop_sequences: stop sequences must not be empty.")
	}
	if c.Has("responseSchema") && c.Has("responseJsonSchema") {
		return geminiBad("Only one of response_schema and response_json_schema may be set.")
	}
	formed := []string{"application/json", "text/x.enum"}
	if (c.Has("responseSchema") || c.Has("responseJsonSchema")) && !slices.Contains(formed, c.Str("responseMimeType")) {
		return geminiBad("* GenerateContentRequest.generation_config.response_schema: only allowed when mime type is `application/json`.")
	}
	return geminiThinking(model, Camel(c.Object("thinkingConfig")))
}

func geminiThinking(model string, c object) *Refusal {
	if name := c.Unknown("thinkingBudget", "thinkingLevel", "includeThoughts"); name != "" {
		return geminiUnknown(name, "generation_config.thinking_config")
	}
	switch {
	case c.Has("thinkingBudget") && c.Has("thinkingLevel"):
		return geminiBad("You can only set only one of thinking budget and thinking level.")
	case c.Has("thinkingLevel") && strings.HasPrefix(model, "gemini-2"):
		return geminiBad("Thinking level is not supported for this model.")
	case c.Has("thinkingLevel") && !slices.Contains([]string{"minimal", "low", "medium", "high"}, strings.ToLower(c.Str("thinkingLevel"))):
		return geminiBad("Invalid value at 'generation_config.thinking_config.thinking_level': %q", c.Str("thinkingLevel"))
	}
	v, ok := c.Num("thinkingBudget")
	switch {
	case !c.Has("thinkingBudget"):
	case v == 0 && strings.HasPrefix(model, "gemini-2.5-pro"):
		return geminiBad("Budget 0 is invalid. This model only works in thinking mode.")
	case !ok || v < -1 || v > 32768:
		return geminiBad("The thinking budget %g is invalid. Please choose a value between 0 and 32768.", v)
	}
	return nil
}

var geminiToolMembers = []string{"functionDeclarations", "googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext", "computerUse", "fileSearch", "googleMaps", "mcpServers"}

func geminiTools(_ string, o object) *Refusal {
	functions := 0
	for i, t := range o.List("tools") {
		t = Camel(t)
		if name := t.Unknown(geminiToolMembers...); name != "" {
			return geminiUnknown(name, fmt.Sprintf("tools[%d]", i))
		}
		for j, f := range t.List("functionDeclarations") {
			functions++
			f = Camel(f)
			at := fmt.Sprintf("tools[%d].function_declarations[%d]", i, j)
			switch name := f.Unknown("name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior"); {
			case name != "":
				return geminiUnknown(name, at)
			case !validFunctionName(f.Str("name")):
				return geminiBad("* GenerateContentRequest.%s.name: Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 128.", at)
			case f.Has("parameters") && f.Has("parametersJsonSchema"):
				return geminiBad("* GenerateContentRequest.%s: only one of parameters and parameters_json_schema may be set.", at)
			}
		}
	}
	config := Camel(Camel(o.Object("toolConfig")).Object("functionCallingConfig"))
	mode := config.Str("mode")
	switch {
	case config.Has("allowedFunctionNames") && mode != "ANY" && mode != "VALIDATED":
		return geminiBad("Function calling config: allowed_function_names should only be set when the mode is ANY.")
	case mode == "ANY" && functions == 0:
		return geminiBad("Function calling config is set without function_declarations.")
	case mode != "" && !slices.Contains([]string{"AUTO", "ANY", "NONE", "VALIDATED"}, mode):
		return geminiBad("Invalid value at 'tool_config.function_calling_config.mode': %q", mode)
	}
	return nil
}

func validFunctionName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
	return s != "" && len(s) <= 128 && strings.Contains(letters, s[:1]) && strings.Trim(s, letters+"0123456789.:-") == ""
}

var geminiParts = []string{"text", "inlineData", "functionCall", "functionResponse", "fileData", "executableCode", "codeExecutionResult"}

// geminiContents checks the turns: their roles and parts, how calls and responses follow each other, and who signed them.
func geminiContents(model string, o object) *Refusal {
	contents := o.List("contents")
	if len(contents) == 0 {
		return geminiBad("* GenerateContentRequest.contents: contents is not specified")
	}
	open, last := []string(nil), ""
	for i, c := range contents {
		t, e := geminiTurn(Camel(c), i)
		switch {
		case e != nil:
			return e
		case len(t.results) > 0 && len(open) == 0:
			return geminiBad("Please ensure that function response turn comes immediately after a function call turn.")
		case len(open) != len(t.results):
			return geminiBad("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		case len(t.calls) > 0 && last != "user":
			return geminiBad("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
		}
		for _, name := range t.results {
			at := slices.Index(open, name)
			if at < 0 {
				return geminiBad("* GenerateContentRequest.contents[%d]: function response %q has no function call.", i, name)
			}
			open = slices.Delete(open, at, at+1)
		}
		open, last = t.calls, t.role
		if len(t.calls) > 0 && !t.signed && strings.HasPrefix(model, "gemini-3") {
			return geminiBad("Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s`, position %d. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.", t.calls[0], i+1)
		}
	}
	if last == "model" {
		return geminiBad("Please ensure that multiturn requests end with a user role or a function response.")
	}
	for i, p := range Camel(o.Object("systemInstruction")).List("parts") {
		if !Camel(p).Has("text") {
			return geminiBad("* GenerateContentRequest.system_instruction.parts[%d]: only text is supported.", i)
		}
	}
	return nil
}

// geminiSaid is what a content holds.
type geminiSaid struct {
	role           string
	calls, results []string // by the names of their functions
	signed         bool     // its first call is
}

func geminiTurn(c object, i int) (t geminiSaid, e *Refusal) {
	if name := c.Unknown("role", "parts"); name != "" {
		return t, geminiUnknown(name, fmt.Sprintf("contents[%d]", i))
	}
	t.role = cmp.Or(c.Str("role"), "user")
	if t.role != "user" && t.role != "model" && t.role != "function" {
		return t, geminiBad("Please use a valid role: user, model.")
	}
	if t.role == "function" {
		t.role = "user"
	}
	parts := c.List("parts")
	if len(parts) == 0 {
		return t, geminiBad("* GenerateContentRequest.contents[%d].parts: contents.parts must not be empty.", i)
	}
	for j, p := range parts {
		if e := t.part(Camel(p), fmt.Sprintf("contents[%d].parts[%d]", i, j)); e != nil {
			return t, e
		}
	}
	return t, nil
}

func (t *geminiSaid) part(p object, at string) *Refusal {
	if name := p.Unknown(append([]string{"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"}, geminiParts...)...); name != "" {
		return geminiUnknown(name, at)
	}
	held := 0
	for _, name := range geminiParts {
		if _, ok := p[name]; ok {
			held++
		}
	}
	if held != 1 {
		return geminiBad("* GenerateContentRequest.%s.data: required oneof field 'data' must have one initialized field", at)
	}
	signature := p.Str("thoughtSignature")
	if signature != "" && !isGeminiSignature(signature) {
		return geminiBad("Corrupted thought signature.")
	}
	switch {
	case p.Has("functionCall"):
		call := Camel(p.Object("functionCall"))
		if name := call.Unknown("id", "name", "args"); name != "" {
			return geminiUnknown(name, at+".function_call")
		}
		if t.role != "model" {
			return geminiBad("Please ensure that function calls come from the model role.")
		}
		t.signed = t.signed || len(t.calls) == 0 && signature != ""
		t.calls = append(t.calls, call.Str("name"))
	case p.Has("functionResponse"):
		r := Camel(p.Object("functionResponse"))
		if name := r.Unknown("id", "name", "response", "parts", "willContinue", "scheduling"); name != "" {
			return geminiUnknown(name, at+".function_response")
		}
		if r.Str("name") == "" {
			return geminiBad("* GenerateContentRequest.%s.function_response.name: Name cannot be empty.", at)
		}
		if len(r["response"]) == 0 || r["response"][0] != '{' {
			return geminiBad("Invalid value at '%s.function_response.response' (type.googleapis.com/google.protobuf.Struct)", at)
		}
		t.results = append(t.results, r.Str("name"))
	case p.Has("inlineData"):
		d := Camel(p.Object("inlineData"))
		if d.Str("mimeType") == "" || d.Str("data") == "" {
			return geminiBad("* GenerateContentRequest.%s.inline_data: mime_type and data are required.", at)
		}
	}
	return nil
}
