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
		w.Name(kind)
		if w.choice.Mode == chat.ToolNamed && w.choice.Name == t.Name {
			w.Lose("tool_choice")
			w.choice = chat.ToolChoice{}
		}
	}
	if len(tools) == 0 {
		if w.choice.Mode == chat.ToolAny || w.choice.Mode == chat.ToolNamed {
			w.Lose("tool_choice")
		}
		tools = w.calledTools()
		w.choice = chat.ToolChoice{Mode: chat.ToolNone}
	}
	if len(tools) == 0 {
		return
	}
	w.Key("tools")
	w.Raw("[")
	for i := range tools {
		w.comma(i)
		w.tool(&tools[i])
	}
	w.Raw("]")
	w.toolChoice()
}

func (w *writer) calledTools() []chat.Tool {
	var tools []chat.Tool
	known := map[string]bool{}
	for i := range w.turns {
		for j := range w.turns[i].Parts {
			p := &w.turns[i].Parts[j]
			if p.Kind == chat.PartToolUse && !known[p.Tool.Name] {
				known[p.Tool.Name] = true
				tools = append(tools, chat.Tool{Name: p.Tool.Name})
			}
		}
	}
	return tools
}

func (w *writer) tool(t *chat.Tool) {
	w.Raw(`{"name":`)
	w.Str(t.Name)
	if t.Description != "" {
		w.Key("description")
		w.Str(t.Description)
	}
	w.Key("input_schema")
	w.schema(t.Schema)
	switch {
	case !t.Strict:
	case w.opts.enforces(t.Schema):
		w.Raw(`,"strict":true`)
	default:
		w.Lose("strict")
	}
	if t.CacheControl != nil {
		w.Key("cache_control")
		w.Raw(string(t.CacheControl))
	}
	w.Raw("}")
}

// schema writes a tool's input. It must say that it is an object, which others take for granted.
func (w *writer) schema(r jsonx.Raw) {
	v := jsonx.Value{Raw: r}
	switch {
	case v.Kind() != jsonx.Object || !hasMembers(v):
		w.Raw(emptySchema)
	case v.Get("type").Exists():
		w.Raw(string(r))
	default:
		w.Raw(`{"type":"object",`)
		w.Raw(string(r[1:]))
	}
}

// takesFormat reports whether a schema of the answer is sent: to a model that answers by one, or of which nobody knows.
func (o *RequestOptions) takesFormat(schema jsonx.Raw) bool {
	return (o.StructuredOutputs || o.Unknown) && wire.Enforceable(jsonx.Value{Raw: schema}, wire.ByAnthropic)
}

// enforces reports whether the model answers by a schema.
func (o *RequestOptions) enforces(schema jsonx.Raw) bool {
	return o.StructuredOutputs && wire.Enforceable(jsonx.Value{Raw: schema}, wire.ByAnthropic)
}

func (w *writer) toolChoice() {
	alone := w.Conv.ParallelTools != nil && !*w.Conv.ParallelTools
	switch w.choice.Mode {
	case chat.ToolNone:
		w.Raw(`,"tool_choice":{"type":"none"}`)
		return
	case chat.ToolAuto:
		if !alone {
			return
		}
		w.Raw(`,"tool_choice":{"type":"auto"`)
	case chat.ToolAny:
		w.Raw(`,"tool_choice":{"type":"any"`)
	case chat.ToolNamed:
		w.Raw(`,"tool_choice":{"type":"tool","name":`)
		w.Str(w.choice.Name)
	}
	if alone {
		w.Raw(`,"disable_parallel_tool_use":true`)
	}
	w.Raw("}")
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
		w.Raw(`,"service_tier":"standard_only"`)
	}
	w.reportUnsupported()
	w.loseNumber("presence_penalty", w.own.PresencePenalty)
	w.loseNumber("frequency_penalty", w.own.FrequencyPenalty)
	if w.own.Seed != "" {
		w.Lose("seed")
	}
	if w.own.MinP != "" {
		w.Lose("min_p")
	}
	if w.own.CacheKey != "" {
		w.Lose("prompt_cache_key")
	}
	if w.req.Choices > 1 {
		w.Lose("n")
	}
}

func (w *writer) number(key, text string) {
	if text != "" {
		w.Key(key)
		w.Raw(text)
	}
}

// loseNumber names a parameter that is not zero, for zero is what leaving it out means.
func (w *writer) loseNumber(key, text string) {
	if number(text) != 0 {
		w.Lose(key)
	}
}

func (w *writer) thinking() {
	if raw := w.thinkingMember(); raw != nil {
		w.Key("thinking")
		w.Raw(string(raw))
	}
}

// outputConfig writes how hard to think, and the schema of the answer.
func (w *writer) outputConfig() {
	schema := w.sampling.Schema
	if w.own.JSONMode {
		w.Lose("format")
	}
	if len(schema) > 0 && !w.opts.takesFormat(schema) {
		if len(w.own.Schema) > 0 {
			w.Lose("format")
		} else {
			w.Name(lostSchema)
		}
		schema = nil
	}
	if w.effort == "" && schema == nil {
		return
	}
	w.Raw(`,"output_config":{`)
	if w.effort != "" {
		w.Raw(`"effort":"` + w.effort + `"`)
	}
	if schema != nil {
		if w.effort != "" {
			w.Raw(",")
		}
		w.Raw(`"format":{"type":"json_schema","schema":`)
		w.Raw(string(schema))
		w.Raw("}")
		if !wire.Says(schema, w.sampling.SchemaNote) {
			w.Lose("description")
		}
	}
	w.Raw("}")
}

// stop writes the sequences; the API refuses those of white space alone.
func (w *writer) stop() {
	n := 0
	for _, s := range w.sampling.Stop {
		if strings.TrimSpace(s) == "" {
			w.Lose("stop_sequences")
			continue
		}
		if n == 0 {
			w.Key("stop_sequences")
			w.Raw("[")
		}
		w.comma(n)
		w.Str(s)
		n++
	}
	if n > 0 {
		w.Raw("]")
	}
}

func (w *writer) user() {
	switch name := w.sampling.User; {
	case name == "":
	case len(name) > maxUser:
		w.Lose("user_id")
	default:
		w.Raw(`,"metadata":{"user_id":`)
		w.Str(name)
		w.Raw("}")
	}
}
