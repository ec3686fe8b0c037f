package openai

import (
	"math"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

func readTools(c *chat.Conversation, v jsonx.Value) error {
	if v.Kind() != jsonx.Array {
		return wire.WrongKind("tools", "an array", v)
	}
	for i, e := range v.Each {
		f := e.Get("function")
		if kind, ok := e.Get("type").Str(); ok && kind != "function" {
			name, _ := e.Get(kind).Get("name").Str()
			c.Tools = append(c.Tools, chat.Tool{Name: name, Raw: e.Raw})
			continue
		}
		tool, err := readFunction(c, f, "tools["+strconv.Itoa(i)+"].function")
		if err != nil {
			return err
		}
		wire.UnmapUnknown(c, e, "type", "function", "cache_control")
		if cc := wire.Present(e.Get("cache_control")); cc != nil {
			tool.CacheControl = cc
		}
		c.Tools = append(c.Tools, tool)
	}
	return nil
}

// readFunctions reads the legacy form of tools.
func readFunctions(c *chat.Conversation, v jsonx.Value) error {
	if v.Kind() != jsonx.Array {
		return wire.WrongKind("functions", "an array", v)
	}
	for i, f := range v.Each {
		tool, err := readFunction(c, f, "functions["+strconv.Itoa(i)+"]")
		if err != nil {
			return err
		}
		c.Tools = append(c.Tools, tool)
	}
	return nil
}

func readFunction(c *chat.Conversation, f jsonx.Value, at string) (tool chat.Tool, err error) {
	wire.UnmapUnknown(c, f, "name", "description", "parameters", "strict", "cache_control")
	if tool.Name, _ = f.Get("name").Str(); tool.Name == "" {
		return tool, wire.Invalid(at+".name", "%s.name must be a non-empty string", at)
	}
	if tool.Description, err = wire.ReadOptional(at+".description", f.Get("description")); err != nil {
		return tool, err
	}
	tool.Schema = wire.Present(f.Get("parameters"))
	if v := f.Get("parameters"); tool.Schema != nil && v.Kind() != jsonx.Object {
		return tool, wire.WrongKind(at+".parameters", "an object", v)
	}
	if tool.Strict, err = wire.ReadFlag(at+".strict", f.Get("strict")); err != nil {
		return tool, err
	}
	tool.CacheControl = wire.Present(f.Get("cache_control"))
	return tool, nil
}

func readToolChoice(c *chat.Conversation, key string, v jsonx.Value) error {
	wire.Rename(c, "tool_choice", key)
	mode := v
	if v.Kind() == jsonx.Object {
		switch kind, _ := v.Get("type").Str(); kind {
		case "allowed_tools":
			wire.UnmapUnknown(c, v, "type", "allowed_tools")
			mode = v.Get("allowed_tools").Get("mode")
			readAllowed(c, v.Get("allowed_tools"))
		case "custom":
			wire.Unmap(c, key)
			return nil
		default:
			return readNamedTool(c, key, v)
		}
	}
	switch s, _ := mode.Str(); s {
	case "auto":
		c.ToolChoice.Mode = chat.ToolAuto
	case "none":
		c.ToolChoice.Mode = chat.ToolNone
	case "required", "any":
		c.ToolChoice.Mode = chat.ToolAny
	default:
		return wire.Invalid(key, "%s must be auto, none, required or a function", key)
	}
	return nil
}

// readAllowed reads the tools that the model may call.
func readAllowed(c *chat.Conversation, v jsonx.Value) {
	wire.UnmapUnknown(c, v, "mode", "tools")
	c.AllowedTools = []string{}
	for _, t := range v.Get("tools").Each {
		wire.UnmapUnknown(c, t, "type", "function", chat.CustomTool)
		for _, kind := range []string{"function", chat.CustomTool} {
			wire.UnmapUnknown(c, t.Get(kind), "name")
			if name, ok := t.Get(kind).Get("name").Str(); ok {
				c.AllowedTools = append(c.AllowedTools, name)
			}
		}
	}
}

func readNamedTool(c *chat.Conversation, key string, v jsonx.Value) error {
	wire.UnmapUnknown(c, v, "type", "function", "name")
	wire.UnmapUnknown(c, v.Get("function"), "name")
	name, ok := v.Get("function").Get("name").Str()
	if !ok {
		name, ok = v.Get("name").Str() // the legacy form
	}
	if !ok || name == "" {
		return wire.Invalid(key, "%s must name a function", key)
	}
	c.ToolChoice = chat.ToolChoice{Mode: chat.ToolNamed, Name: name}
	return nil
}

// readParam reads a parameter; an unknown member is unmapped.
func readParam(c *chat.Conversation, r *chat.Request, key string, v jsonx.Value) error {
	p := &c.Params
	switch key {
	case "temperature", "top_p", "min_p", "top_k", "presence_penalty", "frequency_penalty", "seed":
		return wire.ReadNumber(wire.NumberParam(p, key), key, v)
	case "user", "safety_identifier":
		return wire.ReadUser(c, key, v)
	case "prompt_cache_key":
		var err error
		p.CacheKey, err = wire.ReadText(key, v)
		return err
	case "reasoning_effort":
		var err error
		p.Effort, err = wire.ReadText(key, v)
		return err
	case "reasoning":
		return readReasoningParams(c, r, v)
	case "thinking":
		return readThinkingParams(c, r, v)
	case "stop":
		return readStop(p, v)
	case "response_format":
		return readFormat(c, v)
	case "service_tier":
		if v.Equal("default") {
			p.ServiceTier = chat.TierStandard
			return nil
		}
	case "n":
		if r.Choices <= 1 {
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
	case "logprobs", "store":
		return string(v.Raw) == "false"
	case "top_logprobs":
		return string(v.Raw) == "0"
	case "logit_bias", "metadata":
		return wire.IsEmpty(v)
	case "modalities":
		return string(v.Raw) == `["text"]`
	case "verbosity":
		return v.Equal("medium")
	case "service_tier":
		return v.Equal("auto")
	}
	return false
}

// readReasoningParams reads OpenRouter's object for reasoning. reasoning_effort has precedence over its effort.
func readReasoningParams(c *chat.Conversation, r *chat.Request, v jsonx.Value) error {
	p := &c.Params
	wire.UnmapUnknown(c, v, "enabled", "max_tokens", "effort")
	if n, ok := v.Get("max_tokens").Int(); ok && n > 0 && n <= math.MaxInt32 {
		p.ThinkingBudget = int(n)
	}
	effort, err := wire.ReadOptional("reasoning.effort", v.Get("effort"))
	if err != nil {
		return err
	}
	if on, ok := v.Get("enabled").Bool(); ok && effort == "" {
		switch {
		case !on:
			effort = effortNone
		case p.ThinkingBudget == 0:
			effort = "medium"
		}
	}
	switch beside := r.Doc.Get("reasoning_effort"); {
	case beside.IsNull():
		wire.Rename(c, "effort", "reasoning")
		p.Effort = effort
	case effort != "" && !beside.Equal(effort):
		wire.Unmap(c, "reasoning")
	}
	return nil
}

// readThinkingParams reads Anthropic's object for thinking, which some clients of this format send.
func readThinkingParams(c *chat.Conversation, r *chat.Request, v jsonx.Value) error {
	wire.UnmapUnknown(c, v, "type", "budget_tokens")
	if v.Kind() == jsonx.Object && !wire.IsEmpty(v) && v.Get("type").IsNull() && v.Get("budget_tokens").IsNull() { // GLM's, which concerns only the history
		return nil
	}
	kind, ok := v.Get("type").Str()
	if !ok {
		return wire.WrongKind("thinking.type", "a string", v.Get("type"))
	}
	if r.Doc.Get("reasoning_effort").IsNull() {
		wire.Rename(c, "effort", "thinking")
	}
	budget, ok := v.Get("budget_tokens").Int()
	switch {
	case kind == "enabled" && ok && budget > 0 && budget <= math.MaxInt32 && c.Params.ThinkingBudget == 0:
		wire.Rename(c, "budget_tokens", "thinking")
		c.Params.ThinkingBudget = int(budget)
	case kind == "adaptive":
		c.Params.Thinking = chat.ThinkingAdaptive
	case kind == "disabled":
		c.Params.Thinking = chat.ThinkingOff
	default:
		wire.Unmap(c, "thinking")
	}
	return nil
}

func readStop(p *chat.Params, v jsonx.Value) error {
	if s, ok := v.Str(); ok {
		p.Stop = []string{s}
		return nil
	}
	if v.Kind() != jsonx.Array {
		return wire.WrongKind("stop", "a string or an array", v)
	}
	for i, e := range v.Each {
		s, ok := e.Str()
		if !ok {
			return wire.WrongKind("stop["+strconv.Itoa(i)+"]", "a string", e)
		}
		p.Stop = append(p.Stop, s)
	}
	return nil
}

func readFormat(c *chat.Conversation, v jsonx.Value) error {
	kind := v.Get("type")
	switch {
	case kind.Equal("text"):
		wire.UnmapUnknown(c, v, "type")
		return nil
	case kind.Equal(wire.JSONObject):
		wire.UnmapUnknown(c, v, "type")
		c.Params.JSONMode = true
		return nil
	case !kind.Equal("json_schema"):
		wire.Unmap(c, "response_format")
		return nil
	}
	def := v.Get("json_schema")
	wire.UnmapUnknown(c, v, "type", "json_schema")
	wire.UnmapUnknown(c, def, "name", "description", "schema", "strict")
	return wire.ReadJSONSchema(c, def, "response_format.json_schema")
}
