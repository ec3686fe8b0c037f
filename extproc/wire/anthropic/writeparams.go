package anthropic

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// maxUser is how long the API lets a user's id be, in bytes.
const maxUser = 256

const emptySchema = `{"type":"object","properties":{}}`

// tools writes the functions. A history with calls needs their tools, too, even when the request offers none: then they
// are named so that the history is understood, and may not be called.
func (w *writer) tools() {
	var tools []chat.Tool
	for i := range w.offered {
		t := &w.offered[i]
		if t.Raw == nil {
			tools = append(tools, *t)
			continue
		}
		kind, _ := jsonx.Value{Raw: t.Raw}.Get("type").Str()
		w.name(kind)
		if w.choice.Mode == chat.ToolNamed && w.choice.Name == t.Name {
			w.lose("tool_choice")
			w.choice = chat.ToolChoice{}
		}
	}
	if len(tools) == 0 {
		if w.choice.Mode == chat.ToolAny || w.choice.Mode == chat.ToolNamed {
			w.lose("tool_choice")
		}
		tools = w.calledTools()
		w.choice = chat.ToolChoice{Mode: chat.ToolNone}
	}
	if len(tools) == 0 {
		return
	}
	w.key("tools")
	w.raw("[")
	for i := range tools {
		w.comma(i)
		w.tool(&tools[i])
	}
	w.raw("]")
	w.toolChoice()
}

func (w *writer) calledTools() []chat.Tool {
	var tools []chat.Tool
	known := map[string]bool{}
	for i := range w.turns {
		for j := range w.turns[i].parts {
			p := &w.turns[i].parts[j]
			if p.Kind == chat.PartToolUse && !known[p.Tool.Name] {
				known[p.Tool.Name] = true
				tools = append(tools, chat.Tool{Name: p.Tool.Name})
			}
		}
	}
	return tools
}

func (w *writer) tool(t *chat.Tool) {
	w.raw(`{"name":`)
	w.str(t.Name)
	if t.Description != "" {
		w.key("description")
		w.str(t.Description)
	}
	w.key("input_schema")
	w.schema(t.Schema)
	switch {
	case !t.Strict:
	case w.opts.enforces(t.Schema):
		w.raw(`,"strict":true`)
	default:
		w.lose("strict")
	}
	if t.CacheControl != nil {
		w.key("cache_control")
		w.raw(string(t.CacheControl))
	}
	w.raw("}")
}

// schema writes a tool's input. It must say that it is an object, which others take for granted.
func (w *writer) schema(r jsonx.Raw) {
	v := jsonx.Value{Raw: r}
	switch {
	case v.Kind() != jsonx.Object || !hasMembers(v):
		w.raw(emptySchema)
	case v.Get("type").Exists():
		w.raw(string(r))
	default:
		w.raw(`{"type":"object",`)
		w.raw(string(r[1:]))
	}
}

// enforces reports whether the model answers by a schema.
func (o *RequestOptions) enforces(schema jsonx.Raw) bool {
	return o.StructuredOutputs && wire.Enforceable(jsonx.Value{Raw: schema}, wire.ByAnthropic)
}

func (w *writer) toolChoice() {
	alone := w.conv.ParallelTools != nil && !*w.conv.ParallelTools
	switch w.choice.Mode {
	case chat.ToolNone:
		w.raw(`,"tool_choice":{"type":"none"}`)
		return
	case chat.ToolAuto:
		if !alone {
			return
		}
		w.raw(`,"tool_choice":{"type":"auto"`)
	case chat.ToolAny:
		w.raw(`,"tool_choice":{"type":"any"`)
	case chat.ToolNamed:
		w.raw(`,"tool_choice":{"type":"tool","name":`)
		w.str(w.choice.Name)
	}
	if alone {
		w.raw(`,"disable_parallel_tool_use":true`)
	}
	w.raw("}")
}

func (w *writer) params() {
	w.stop()
	w.number("temperature", w.sampling.Temperature)
	w.number("top_p", w.sampling.TopP)
	w.number("top_k", w.sampling.TopK)
	w.thinking()
	w.outputConfig()
	w.user()
	if w.sampling.ServiceTier == chat.TierStandard {
		w.raw(`,"service_tier":"standard_only"`)
	}
	w.unsayable()
	w.loseNumber("presence_penalty", w.own.PresencePenalty)
	w.loseNumber("frequency_penalty", w.own.FrequencyPenalty)
	if w.own.Seed != "" {
		w.lose("seed")
	}
	if w.own.MinP != "" {
		w.lose("min_p")
	}
	if w.own.CacheKey != "" {
		w.lose("prompt_cache_key")
	}
	if w.req.Choices > 1 {
		w.lose("n")
	}
}

func (w *writer) number(key, text string) {
	if text != "" {
		w.key(key)
		w.raw(text)
	}
}

// loseNumber names a parameter that is not zero, for zero is what leaving it out means.
func (w *writer) loseNumber(key, text string) {
	if number(text) != 0 {
		w.lose(key)
	}
}

func (w *writer) thinking() {
	if raw := w.thinkingMember(); raw != nil {
		w.key("thinking")
		w.raw(string(raw))
	}
}

// outputConfig writes how hard to think, and the schema of the answer.
func (w *writer) outputConfig() {
	schema := w.sampling.Schema
	if len(schema) > 0 && !w.opts.enforces(schema) {
		if len(w.own.Schema) > 0 {
			w.lose("format")
		}
		schema = nil
	}
	if w.effort == "" && schema == nil {
		return
	}
	w.raw(`,"output_config":{`)
	if w.effort != "" {
		w.raw(`"effort":"` + w.effort + `"`)
	}
	if schema != nil {
		if w.effort != "" {
			w.raw(",")
		}
		w.raw(`"format":{"type":"json_schema","schema":`)
		w.raw(string(schema))
		w.raw("}")
		if w.sampling.SchemaNote != "" {
			w.lose("description")
		}
	}
	w.raw("}")
}

// stop writes the sequences; the API refuses those of white space alone.
func (w *writer) stop() {
	n := 0
	for _, s := range w.sampling.Stop {
		if strings.TrimSpace(s) == "" {
			w.lose("stop_sequences")
			continue
		}
		if n == 0 {
			w.key("stop_sequences")
			w.raw("[")
		}
		w.comma(n)
		w.str(s)
		n++
	}
	if n > 0 {
		w.raw("]")
	}
}

func (w *writer) user() {
	switch name := w.sampling.User; {
	case name == "":
	case len(name) > maxUser:
		w.lose("user_id")
	default:
		w.raw(`,"metadata":{"user_id":`)
		w.str(name)
		w.raw("}")
	}
}
