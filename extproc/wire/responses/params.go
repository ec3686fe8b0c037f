package responses

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// A custom tool has a single text argument. In other formats it is replaced by a function with this argument.
const (
	customInput  = "input"
	customSchema = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`
)

// readToolList reads a list of tools. opens is whether the tools of namespaces in it are read; else other formats refuse these.
func readToolList(c *chat.Conversation, v jsonx.Value, key string, opens bool) error {
	for i, e := range v.Each {
		at := key + "[" + strconv.Itoa(i) + "]"
		kind, err := readRequired(at+".type", e.Get("type"))
		if err != nil {
			return err
		}
		tool := chat.Tool{Name: kind, Raw: e.Raw} // run by the provider, or of this format only
		switch {
		case kind == "function":
			tool, err = readFunction(c, e, at)
		case kind == chat.CustomTool:
			tool, err = readCustom(c, e, at)
		case kind == namespaceType && opens:
			if err := readNamespace(c, e, at); err != nil {
				return err
			}
			continue
		case kind == namespaceType:
			c.System = append(c.System, chat.Part{Kind: chat.PartOther, Name: kind, At: at, Raw: e.Raw}) // refused as content
			continue
		}
		if err != nil {
			return err
		}
		c.Tools = append(c.Tools, tool)
	}
	return nil
}

func readFunction(c *chat.Conversation, e jsonx.Value, at string) (tool chat.Tool, err error) {
	wire.UnmapUnknown(c, e, "type", "name", "description", "parameters", "strict")
	if tool.Name, err = readRequired(at+".name", e.Get("name")); err != nil {
		return tool, err
	}
	if tool.Description, err = wire.ReadOptional(at+".description", e.Get("description")); err != nil {
		return tool, err
	}
	if schema := e.Get("parameters"); !schema.IsNull() {
		if schema.Kind() != jsonx.Object {
			return tool, wire.WrongKind(at+".parameters", "an object", schema)
		}
		tool.Schema = schema.Raw
	}
	tool.Strict, err = wire.ReadFlag(at+".strict", e.Get("strict"))
	return tool, err
}

// readCustom reads a custom tool as the function that replaces it. Its grammar is added to the description, and is not enforced.
func readCustom(c *chat.Conversation, e jsonx.Value, at string) (tool chat.Tool, err error) {
	wire.UnmapUnknown(c, e, "type", "name", "description", "format")
	if tool.Name, err = readRequired(at+".name", e.Get("name")); err != nil {
		return tool, err
	}
	if tool.Description, err = wire.ReadOptional(at+".description", e.Get("description")); err != nil {
		return tool, err
	}
	tool.Schema = jsonx.Raw(customSchema)
	format := e.Get("format")
	if format.IsNull() || format.Get("type").Equal("text") {
		return tool, nil
	}
	wire.Unmap(c, "format")
	syntax, _ := format.Get("syntax").Str()
	if grammar, _ := format.Get("definition").Str(); grammar != "" {
		if tool.Description != "" {
			tool.Description += "\n\n"
		}
		tool.Description += "The input follows this " + syntax + " grammar:\n" + grammar
	}
	return tool, nil
}

func readToolChoice(c *chat.Conversation, v jsonx.Value) error {
	const key = "tool_choice"
	mode := v
	if v.Kind() == jsonx.Object {
		kind, err := readRequired(key+".type", v.Get("type"))
		if err != nil {
			return err
		}
		switch kind {
		case "function", chat.CustomTool:
			wire.UnmapUnknown(c, v, "type", "name", namespaceType)
			name, err := readRequired(key+".name", v.Get("name"))
			c.ToolChoice = chat.ToolChoice{Mode: chat.ToolNamed, Name: name}
			return err
		case "allowed_tools":
			wire.UnmapUnknown(c, v, "type", "mode", "tools")
			c.AllowedTools = []string{}
			for _, t := range v.Get("tools").Each {
				wire.UnmapUnknown(c, t, "type", "name", namespaceType)
				if name, ok := t.Get("name").Str(); ok {
					c.AllowedTools = append(c.AllowedTools, name)
				}
			}
			mode = v.Get("mode")
		default: // a tool of the provider
			wire.Unmap(c, key)
			return nil
		}
	}
	switch s, _ := mode.Str(); s {
	case "auto":
		c.ToolChoice.Mode = chat.ToolAuto
	case "none":
		c.ToolChoice.Mode = chat.ToolNone
	case "required":
		c.ToolChoice.Mode = chat.ToolAny
	default:
		return wire.Invalid(key, "tool_choice must be auto, none, required or a tool")
	}
	return nil
}

// readParam reads a parameter; an unknown member is unmapped.
func readParam(c *chat.Conversation, key string, v jsonx.Value) error {
	p := &c.Params
	switch key {
	case "temperature", "top_p":
		return wire.ReadNumber(wire.NumberParam(p, key), key, v)
	case "user", "safety_identifier":
		return wire.ReadUser(c, key, v)
	case "prompt_cache_key":
		var err error
		p.CacheKey, err = wire.ReadText(key, v)
		return err
	case "reasoning":
		return readReasoningParams(c, v)
	case "text":
		return readTextParams(c, v)
	case "include":
		return readInclude(c, v)
	case "stream_options": // concerns only the provider's stream
		wire.UnmapUnknown(c, v, "include_obfuscation")
		return nil
	case "service_tier":
		if v.Equal("default") {
			p.ServiceTier = chat.TierStandard
			return nil
		}
	}
	if !isDefault(key, v) {
		wire.Unmap(c, key)
	}
	return nil
}

// isDefault reports whether a member that the canonical form lacks equals its default.
func isDefault(key string, v jsonx.Value) bool {
	switch key {
	case "store":
		return string(v.Raw) == "false"
	case "top_logprobs":
		return string(v.Raw) == "0"
	case "metadata":
		return wire.IsEmpty(v)
	case "truncation":
		return v.Equal("disabled")
	case "service_tier":
		return v.Equal("auto")
	}
	return false
}

// readReasoningParams reads the effort, and whether thinking is visible.
func readReasoningParams(c *chat.Conversation, v jsonx.Value) error {
	wire.UnmapUnknown(c, v, "effort", "summary", "generate_summary")
	var err error
	if c.Params.Effort, err = wire.ReadOptional("reasoning.effort", v.Get("effort")); err != nil {
		return err
	}
	for _, key := range [...]string{"generate_summary", "summary"} {
		detail, err := wire.ReadOptional("reasoning."+key, v.Get(key))
		if err != nil {
			return err
		}
		if detail != "" {
			visible := true
			c.Params.Visible = &visible
		}
	}
	return nil
}

// readTextParams reads the format of the answer.
func readTextParams(c *chat.Conversation, v jsonx.Value) error {
	if v.Kind() != jsonx.Object {
		return wire.WrongKind("text", "an object", v)
	}
	wire.UnmapUnknown(c, v, "format", "verbosity")
	if d := v.Get("verbosity"); !d.IsNull() && !d.Equal("medium") {
		wire.Unmap(c, "verbosity")
	}
	f := v.Get("format")
	switch kind := f.Get("type"); {
	case f.IsNull(), kind.Equal("text"):
		wire.UnmapUnknown(c, f, "type")
		return nil
	case kind.Equal(wire.JSONObject):
		wire.UnmapUnknown(c, f, "type")
		c.Params.JSONMode = true
		return nil
	case !kind.Equal("json_schema"):
		wire.Unmap(c, "text")
		return nil
	}
	wire.UnmapUnknown(c, f, "type", "name", "description", "schema", "strict")
	return wire.ReadJSONSchema(c, f, "text.format")
}

// readInclude reads what else the answer should contain. Encrypted reasoning is always included.
func readInclude(c *chat.Conversation, v jsonx.Value) error {
	if v.Kind() != jsonx.Array {
		return wire.WrongKind("include", "an array", v)
	}
	for _, e := range v.Each {
		if !e.Equal("reasoning.encrypted_content") {
			wire.Unmap(c, "include")
		}
	}
	return nil
}
