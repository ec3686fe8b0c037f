package gemini

import (
	"math"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// readTools reads functions, and Google's own tools, by their members.
func readTools(c *chat.Conversation, v jsonx.Value) error {
	if v.Kind() == jsonx.Object {
		return readTool(c, v, "tools")
	}
	if v.Kind() != jsonx.Array {
		return wire.WrongKind("tools", "an array", v)
	}
	for i, e := range v.Each {
		if err := readTool(c, e, "tools["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	return nil
}

func readTool(c *chat.Conversation, v jsonx.Value, at string) error {
	if v.Kind() != jsonx.Object {
		return wire.WrongKind(at, "an object", v)
	}
	for key, m := range v.Members {
		switch {
		case m.IsNull():
		case camel(key) == "functionDeclarations":
			for i, f := range m.Each {
				tool, err := readFunction(c, f, at+"."+string(key)+"["+strconv.Itoa(i)+"]")
				if err != nil {
					return err
				}
				c.Tools = append(c.Tools, tool)
			}
		default: // Google's own; the type is added for writers of other dialects
			raw := append(jsonx.AppendString([]byte(`{"type":`), key), ',')
			raw = append(append(jsonx.AppendString(raw, key), ':'), m.Raw...)
			c.Tools = append(c.Tools, chat.Tool{Raw: append(raw, '}')})
		}
	}
	return nil
}

func readFunction(c *chat.Conversation, f jsonx.Value, at string) (tool chat.Tool, err error) {
	nameUnknown(c, f, "name", "description", "parameters", "parametersJsonSchema")
	if tool.Name, _ = get(f, "name").Str(); tool.Name == "" {
		return tool, wire.Invalid(at+".name", "%s.name must be a non-empty string", at)
	}
	tool.Description, _ = get(f, "description").Str()
	schema, convert := get(f, "parametersJsonSchema"), false
	if schema.IsNull() {
		schema, convert = get(f, "parameters"), true
	}
	if schema.IsNull() {
		return tool, nil
	}
	if schema.Kind() != jsonx.Object {
		return tool, wire.WrongKind(at+".parameters", "an object", schema)
	}
	tool.Schema = schema.Raw
	if convert {
		tool.Schema = jsonSchema(schema)
	}
	return tool, nil
}

func readToolConfig(c *chat.Conversation, key string, v jsonx.Value) error {
	wire.Rename(c, "tool_choice", key)
	nameUnknown(c, v, "functionCallingConfig")
	config := get(v, "functionCallingConfig")
	nameUnknown(c, config, "mode", "allowedFunctionNames")
	var names []string
	for _, e := range get(config, "allowedFunctionNames").Each {
		if name, ok := e.Str(); ok {
			names = append(names, name)
		}
	}
	mode, _ := get(config, "mode").Str()
	switch strings.ToUpper(mode) {
	case "", "AUTO", "MODE_UNSPECIFIED":
	case "VALIDATED":
		for i := range c.Tools {
			c.Tools[i].Strict = c.Tools[i].Raw == nil
		}
	case "NONE":
		c.ToolChoice.Mode = chat.ToolNone
	case "ANY":
		c.ToolChoice.Mode = chat.ToolAny
		if len(names) == 1 {
			c.ToolChoice = chat.ToolChoice{Mode: chat.ToolNamed, Name: names[0]}
			return nil
		}
	default:
		return wire.Invalid(key+".functionCallingConfig.mode", "%s.functionCallingConfig.mode must be AUTO, ANY, NONE or VALIDATED", key)
	}
	c.AllowedTools = names
	return nil
}

// readConfig reads a generationConfig. Unknown members are unmapped.
func readConfig(c *chat.Conversation, at string, config jsonx.Value) error {
	if config.Kind() != jsonx.Object {
		return wire.WrongKind(at, "an object", config)
	}
	for key, v := range config.Members {
		if v.IsNull() {
			continue
		}
		if err := readParam(c, config, string(key), at+"."+string(key), v); err != nil {
			return err
		}
	}
	return nil
}

func readParam(c *chat.Conversation, config jsonx.Value, key, at string, v jsonx.Value) error {
	p := &c.Params
	switch camel([]byte(key)) {
	case "maxOutputTokens", "candidateCount":
		return nil
	case "temperature":
		return wire.ReadNumber(&p.Temperature, at, v)
	case "topP":
		return wire.ReadNumber(&p.TopP, at, v)
	case "topK":
		return wire.ReadNumber(&p.TopK, at, v)
	case "presencePenalty":
		return wire.ReadNumber(&p.PresencePenalty, at, v)
	case "frequencyPenalty":
		return wire.ReadNumber(&p.FrequencyPenalty, at, v)
	case "seed":
		return wire.ReadNumber(&p.Seed, at, v)
	case "stopSequences":
		return readStop(p, at, v)
	case "responseSchema":
		if v.Kind() != jsonx.Object {
			return wire.WrongKind(at, "an object", v)
		}
		wire.Rename(c, "format", key)
		p.Schema = jsonSchema(v)
		return nil
	case "responseJsonSchema", "_responseJsonSchema":
		if v.Kind() != jsonx.Object {
			return wire.WrongKind(at, "an object", v)
		}
		wire.Rename(c, "format", key)
		p.Schema = v.Raw
		return nil
	case "responseMimeType":
		switch {
		case v.Equal("text/plain"), hasSchema(config) && (v.Equal(mimeJSON) || v.Equal(mimeEnum)):
			return nil
		case v.Equal(mimeJSON):
			wire.Rename(c, "format", key)
			p.JSONMode = true
			return nil
		}
	case "thinkingConfig":
		readThinkingConfig(c, v)
		return nil
	}
	if !isDefault(camel([]byte(key)), v) {
		wire.Unmap(c, key)
	}
	return nil
}

// Media types of answers with a schema.
const (
	mimeJSON = "application/json"
	mimeEnum = "text/x.enum" // one value of the schema's enum, without quotes
)

func hasSchema(config jsonx.Value) bool {
	return !get(config, "responseSchema").IsNull() || !get(config, "responseJsonSchema").IsNull()
}

// isDefault reports whether a member that the canonical form lacks equals its default.
func isDefault(name string, v jsonx.Value) bool {
	switch name {
	case "responseLogprobs", "audioTimestamp", "enableEnhancedCivicAnswers":
		return string(v.Raw) == "false"
	case "logprobs":
		return string(v.Raw) == "0"
	case "responseModalities":
		return string(v.Raw) == `["TEXT"]` || wire.IsEmpty(v)
	case "mediaResolution":
		return v.Equal("MEDIA_RESOLUTION_UNSPECIFIED")
	}
	return false
}

func readThinkingConfig(c *chat.Conversation, v jsonx.Value) {
	p := &c.Params
	nameUnknown(c, v, "thinkingBudget", "thinkingLevel", "includeThoughts")
	if level, _ := get(v, "thinkingLevel").Str(); level != "" && !strings.HasSuffix(level, "_UNSPECIFIED") {
		p.Effort = strings.ToLower(level)
	}
	if budget, ok := integer(get(v, "thinkingBudget")); ok {
		switch {
		case budget > 0 && budget <= math.MaxInt32:
			p.ThinkingBudget = int(budget)
		case budget == 0:
			p.Thinking = chat.ThinkingOff
		default:
			p.Thinking = chat.ThinkingAdaptive
		}
	}
	on, ok := get(v, "includeThoughts").Bool()
	if !ok {
		return
	}
	p.Visible = &on
	if on && p.Effort == "" && p.ThinkingBudget == 0 && p.Thinking == chat.ThinkingUnset {
		p.Thinking = chat.ThinkingAdaptive
	}
}

func readStop(p *chat.Params, at string, v jsonx.Value) error {
	if v.Kind() != jsonx.Array {
		return wire.WrongKind(at, "an array", v)
	}
	for i, e := range v.Each {
		s, ok := e.Str()
		if !ok {
			return wire.WrongKind(at+"["+strconv.Itoa(i)+"]", "a string", e)
		}
		p.Stop = append(p.Stop, s)
	}
	return nil
}
