package openai

import (
	"math"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

func readTools(c *chat.Conversation, v jsonx.Value) error {
	if v.Kind() != jsonx.Array {
		return wrongKind("tools", "an array", v)
	}
	for i, e := range v.Each {
		f := e.Get("function")
		if !e.Get("type").Equal("function") && !f.Exists() {
			c.Tools = append(c.Tools, chat.Tool{Raw: e.Raw})
			continue
		}
		tool, ok := readFunction(f)
		if !ok {
			field := "tools[" + strconv.Itoa(i) + "].function.name"
			return invalid(field, "%s must be a non-empty string", field)
		}
		tool.CacheControl = present(e.Get("cache_control"))
		c.Tools = append(c.Tools, tool)
	}
	return nil
}

// readFunctions reads the legacy form of tools.
func readFunctions(c *chat.Conversation, v jsonx.Value) error {
	if v.Kind() != jsonx.Array {
		return wrongKind("functions", "an array", v)
	}
	for i, f := range v.Each {
		tool, ok := readFunction(f)
		if !ok {
			field := "functions[" + strconv.Itoa(i) + "].name"
			return invalid(field, "%s must be a non-empty string", field)
		}
		c.Tools = append(c.Tools, tool)
	}
	return nil
}

func readFunction(f jsonx.Value) (tool chat.Tool, ok bool) {
	tool.Name, _ = f.Get("name").Str()
	tool.Description, _ = f.Get("description").Str()
	tool.Schema = present(f.Get("parameters"))
	tool.Strict, _ = f.Get("strict").Bool()
	return tool, tool.Name != ""
}

func readToolChoice(c *chat.Conversation, key string, v jsonx.Value) error {
	mode := v
	switch {
	case v.Get("type").Equal("allowed_tools"):
		mode = v.Get("allowed_tools").Get("mode")
		c.Unmapped = append(c.Unmapped, key)
	case v.Kind() == jsonx.Object:
		name, ok := v.Get("function").Get("name").Str()
		if !ok {
			name, ok = v.Get("name").Str() // the legacy form
		}
		if !ok || name == "" {
			return invalid(key, "%s must name a function", key)
		}
		c.ToolChoice = chat.ToolChoice{Mode: chat.ToolNamed, Name: name}
		return nil
	}
	switch s, _ := mode.Str(); s {
	case "auto":
		c.ToolChoice.Mode = chat.ToolAuto
	case "none":
		c.ToolChoice.Mode = chat.ToolNone
	case "required", "any":
		c.ToolChoice.Mode = chat.ToolAny
	default:
		return invalid(key, "%s must be auto, none, required or a function", key)
	}
	return nil
}

// readParam reads a sampling parameter; a member it does not know is unmapped.
func readParam(c *chat.Conversation, r *chat.Request, key string, v jsonx.Value) error {
	p := &c.Params
	switch key {
	case "temperature":
		return readNumber(&p.Temperature, key, v)
	case "top_p":
		return readNumber(&p.TopP, key, v)
	case "top_k":
		return readNumber(&p.TopK, key, v)
	case "presence_penalty":
		return readNumber(&p.PresencePenalty, key, v)
	case "frequency_penalty":
		return readNumber(&p.FrequencyPenalty, key, v)
	case "seed":
		return readNumber(&p.Seed, key, v)
	case "user":
		return readString(&p.User, key, v)
	case "reasoning_effort":
		return readString(&p.Effort, key, v)
	case "reasoning":
		return readReasoningParams(p, v)
	case "stop":
		return readStop(p, v)
	case "response_format":
		return readFormat(c, v)
	case "n":
		if r.Choices > 1 {
			c.Unmapped = append(c.Unmapped, key)
		}
		return nil
	}
	c.Unmapped = append(c.Unmapped, key)
	return nil
}

func readNumber(dst *string, key string, v jsonx.Value) error {
	if v.Kind() != jsonx.Number {
		return wrongKind(key, "a number", v)
	}
	*dst = string(v.Raw)
	return nil
}

func readString(dst *string, key string, v jsonx.Value) error {
	s, ok := v.Str()
	if !ok {
		return wrongKind(key, "a string", v)
	}
	*dst = s
	return nil
}

func readReasoningParams(p *chat.Params, v jsonx.Value) error {
	if on, ok := v.Get("enabled").Bool(); ok && !on {
		p.Effort = effortNone
	}
	if n, ok := v.Get("max_tokens").Int(); ok && n > 0 && n <= math.MaxInt32 {
		p.ThinkingBudget = int(n)
	}
	if effort := v.Get("effort"); !effort.IsNull() {
		return readString(&p.Effort, "reasoning.effort", effort)
	}
	return nil
}

func readStop(p *chat.Params, v jsonx.Value) error {
	if s, ok := v.Str(); ok {
		p.Stop = []string{s}
		return nil
	}
	if v.Kind() != jsonx.Array {
		return wrongKind("stop", "a string or an array", v)
	}
	for i, e := range v.Each {
		s, ok := e.Str()
		if !ok {
			return wrongKind("stop["+strconv.Itoa(i)+"]", "a string", e)
		}
		p.Stop = append(p.Stop, s)
	}
	return nil
}

func readFormat(c *chat.Conversation, v jsonx.Value) error {
	kind := v.Get("type")
	switch {
	case kind.Equal("text"):
		return nil
	case !kind.Equal("json_schema"):
		c.Unmapped = append(c.Unmapped, "response_format")
		return nil
	}
	def := v.Get("json_schema")
	schema := def.Get("schema")
	if schema.Kind() != jsonx.Object {
		return wrongKind("response_format.json_schema.schema", "an object", schema)
	}
	c.Params.Schema = schema.Raw
	c.Params.SchemaName, _ = def.Get("name").Str()
	return nil
}
