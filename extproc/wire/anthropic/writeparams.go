package anthropic

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// maxUser is the API's maximum length of a user id in bytes.
const maxUser = 256

// tools writes the functions. A history with tool calls requires their tools even if the request offers none: then they are declared, with
// a choice of none.
func (w *writer) tools() {
	tools := w.OwnTools(w.Conv.Tools, &w.choice, nil)
	if len(tools) == 0 {
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
	w.Str(wire.ToolName(t.Name, chat.Anthropic))
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
		w.Degrade("strict")
	}
	if t.CacheControl != nil {
		w.Key("cache_control")
		w.Raw(string(t.CacheControl))
	}
	w.Raw("}")
}

// schema writes a tool's input schema. The API requires its type, which other APIs default.
func (w *writer) schema(r jsonx.Raw) {
	v := jsonx.Value{Raw: r}
	switch {
	case v.Kind() != jsonx.Object || wire.IsEmpty(v):
		w.Raw(wire.EmptySchema)
	case v.Get("type").Exists():
		w.Raw(string(r))
	default:
		w.Raw(`{"type":"object",`)
		w.Raw(string(r[1:]))
	}
}

// takesFormat reports whether a schema of the answer is sent: to a model that enforces schemas or may do so.
func (o *RequestOptions) takesFormat(schema jsonx.Raw) bool {
	return (o.StructuredOutputs || o.Unknown) && wire.Enforceable(jsonx.Value{Raw: schema}, wire.ByAnthropic)
}

// enforces reports whether the model enforces a schema.
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
		w.Str(wire.ToolName(w.choice.Name, chat.Anthropic))
	}
	if alone {
		w.Raw(`,"disable_parallel_tool_use":true`)
	}
	w.Raw("}")
}

func (w *writer) params() {
	w.stop()
	w.Number("temperature", w.sampling.Temperature)
	w.Number("top_p", w.sampling.TopP)
	w.Number("top_k", w.sampling.TopK)
	w.thinking()
	w.outputConfig()
	w.user()
	if w.sampling.ServiceTier == chat.TierStandard {
		w.Raw(`,"service_tier":"standard_only"`)
	}
	w.reportUnsupported()
	w.degradeNumber("presence_penalty", w.own.PresencePenalty)
	w.degradeNumber("frequency_penalty", w.own.FrequencyPenalty)
	if w.own.Seed != "" {
		w.Degrade("seed")
	}
	if w.own.MinP != "" {
		w.Degrade("min_p")
	}
	if w.own.CacheKey != "" {
		w.Degrade("prompt_cache_key")
	}
	if w.req.Choices > 1 {
		w.Degrade("n")
	}
}

// degradeNumber names a parameter as degraded unless it is zero, the default.
func (w *writer) degradeNumber(key, text string) {
	if wire.Float(text) != 0 {
		w.Degrade(key)
	}
}

func (w *writer) thinking() {
	if raw := w.thinkingMember(); raw != nil {
		w.Key("thinking")
		w.Raw(string(raw))
	}
}

// outputConfig writes the effort and the schema of the answer.
func (w *writer) outputConfig() {
	schema := w.sampling.Schema
	if w.own.JSONMode {
		w.Degrade("format")
	}
	if len(schema) > 0 && !w.opts.takesFormat(schema) {
		if len(w.own.Schema) > 0 {
			w.Degrade("format")
		} else {
			w.DegradeAs(responseSchema)
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
		if !wire.HasNote(schema, w.sampling.SchemaNote) {
			w.Degrade("description")
		}
	}
	w.Raw("}")
}

// stop writes the stop sequences. The API refuses blank ones.
func (w *writer) stop() {
	n := 0
	for _, s := range w.sampling.Stop {
		if strings.TrimSpace(s) == "" {
			w.Degrade("stop_sequences")
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
		w.Degrade("user_id")
	default:
		w.Raw(`,"metadata":{"user_id":`)
		w.Str(name)
		w.Raw("}")
	}
}
