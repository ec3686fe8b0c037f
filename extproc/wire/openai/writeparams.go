package openai

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// tools writes the functions; tools that run at the other dialect's provider cannot be said.
func (w *writer) tools() {
	functions := 0
	for i := range w.conv.Tools {
		if t := &w.conv.Tools[i]; t.Raw != nil {
			kind, _ := jsonx.Value{Raw: t.Raw}.Get("type").Str()
			w.lose(kind)
			continue
		}
		functions++
	}
	if functions == 0 {
		return
	}
	w.key("tools")
	w.openArray()
	for i := range w.conv.Tools {
		if t := &w.conv.Tools[i]; t.Raw == nil {
			w.tool(t)
		}
	}
	w.raw("]")
	w.toolChoice()
	if p := w.conv.ParallelTools; p != nil {
		w.key("parallel_tool_calls")
		w.boolean(*p)
	}
}

func (w *writer) tool(t *chat.Tool) {
	w.element()
	w.raw(`{"type":"function","function":{"name":`)
	w.str(t.Name)
	if t.Description != "" {
		w.key("description")
		w.str(t.Description)
	}
	w.key("parameters")
	if len(t.Schema) > 0 {
		w.json(t.Schema)
	} else {
		w.raw(`{"type":"object","properties":{}}`)
	}
	if t.Strict {
		w.key("strict")
		w.boolean(true)
	}
	w.raw("}}")
}

func (w *writer) toolChoice() {
	switch w.conv.ToolChoice.Mode {
	case chat.ToolAuto:
	case chat.ToolNone:
		w.raw(`,"tool_choice":"none"`)
	case chat.ToolAny:
		w.raw(`,"tool_choice":"required"`)
	case chat.ToolNamed:
		w.raw(`,"tool_choice":{"type":"function","function":{"name":`)
		w.str(w.conv.ToolChoice.Name)
		w.raw("}}")
	}
}

func (w *writer) params() {
	p := &w.conv.Params
	if n := w.req.MaxTokens; n > 0 {
		field := w.opts.TokensField
		if field == "" {
			field = MaxTokens
		}
		w.key(field)
		w.integer(n)
	}
	w.number("temperature", p.Temperature)
	w.number("top_p", p.TopP)
	w.number("presence_penalty", p.PresencePenalty)
	w.number("frequency_penalty", p.FrequencyPenalty)
	w.number("seed", p.Seed)
	if p.TopK != "" {
		w.lose(lostTopK)
	}
	w.stop(p.Stop)
	w.endUser(p.User)
	w.effort(p)
	w.format(p)
}

func (w *writer) number(key, text string) {
	if text != "" {
		w.key(key)
		w.raw(text)
	}
}

func (w *writer) boolean(on bool) {
	if on {
		w.raw("true")
	} else {
		w.raw("false")
	}
}

func (w *writer) stop(sequences []string) {
	if len(sequences) == 0 {
		return
	}
	w.key("stop")
	w.openArray()
	for _, s := range sequences {
		w.element()
		w.str(s)
	}
	w.raw("]")
}

// endUser writes who the end user is. A name that OpenAI would refuse for its length is left out.
func (w *writer) endUser(name string) {
	switch {
	case name == "":
	case len(name) > maxUser:
		w.lose(lostUser)
	default:
		w.key("user")
		w.str(name)
	}
}

// effort writes how hard to think: what the client said, or what its budget amounts to.
func (w *writer) effort(p *chat.Params) {
	effort := p.Effort
	if effort == "" && p.ThinkingBudget > 0 {
		effort = effortOf(p.ThinkingBudget)
	}
	switch {
	case effort == "":
		return
	case w.opts.NoEffort:
		if effort != effortNone {
			w.lose(lostThinking)
		}
		return
	case effort == effortMax: // the format's scale ends below
		w.lose(lostEffort)
		effort = "high"
	}
	w.key("reasoning_effort")
	w.str(effort)
}

// effortOf is the effort that a budget of thinking tokens amounts to.
func effortOf(budget int) string {
	const low, medium = 2048, 8192
	switch {
	case budget <= low:
		return "low"
	case budget <= medium:
		return "medium"
	}
	return "high"
}

func (w *writer) format(p *chat.Params) {
	if len(p.Schema) == 0 {
		return
	}
	name := p.SchemaName
	if name == "" {
		name = "answer"
	}
	w.raw(`,"response_format":{"type":"json_schema","json_schema":{"name":`)
	w.str(name)
	w.key("schema")
	w.json(p.Schema)
	w.key("strict")
	w.boolean(true)
	w.raw("}}")
}
