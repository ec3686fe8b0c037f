package gemini

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// searchTool has the model search the web as it likes.
const searchTool = `[{"googleSearch":{}}]`

// tools writes the functions; tools that run at the other dialect's provider cannot be said. A history with calls needs their
// functions, even when the request offers none: then they are named, and may not be called.
func (w *writer) tools() {
	var functions []*chat.Tool
	for i := range w.conv.Tools {
		t := &w.conv.Tools[i]
		if t.CacheControl != nil {
			w.lose("cache_control")
		}
		if t.Raw == nil {
			functions = append(functions, t)
			continue
		}
		kind, _ := jsonx.Value{Raw: t.Raw}.Get("type").Str()
		w.name(kind)
		if w.choice.Mode == chat.ToolNamed && w.choice.Name == t.Name {
			w.lose("tool_choice")
			w.choice = chat.ToolChoice{}
		}
	}
	if len(functions) == 0 {
		if w.choice.Mode == chat.ToolAny || w.choice.Mode == chat.ToolNamed {
			w.lose("tool_choice")
		}
		if w.searches {
			w.key("tools")
			w.raw(searchTool)
		}
		return
	}
	w.raw(`,"tools":[{"functionDeclarations":`)
	w.openArray()
	for _, t := range functions {
		w.function(t)
	}
	w.raw("]}]")
	if p := w.conv.ParallelTools; p != nil && !*p && w.choice.Mode != chat.ToolNone {
		w.lose("disable_parallel_tool_use")
	}
	w.toolConfig()
}

func (w *writer) function(t *chat.Tool) {
	w.element()
	w.raw(`{"name":`)
	w.str(t.Name)
	if t.Description != "" {
		w.key("description")
		w.str(t.Description)
	}
	if len(t.Schema) > 0 {
		w.key("parametersJsonSchema")
		w.json(t.Schema)
	}
	if t.Strict && !w.validated {
		w.lose("strict")
	}
	w.raw("}")
}

func (w *writer) toolConfig() {
	mode := ""
	switch w.choice.Mode {
	case chat.ToolAuto:
		if !w.validated {
			return
		}
		mode = "VALIDATED"
	case chat.ToolNone:
		mode = "NONE"
	case chat.ToolAny, chat.ToolNamed:
		mode = "ANY"
	}
	w.raw(`,"toolConfig":{"functionCallingConfig":{"mode":"` + mode + `"`)
	if w.choice.Mode == chat.ToolNamed {
		w.raw(`,"allowedFunctionNames":[`)
		w.str(w.choice.Name)
		w.raw("]")
	}
	w.raw("}}")
}

// config writes the generationConfig.
func (w *writer) config() {
	p := &w.said
	start := len(w.dst)
	for _, n := range numbers(p) {
		if n.text != "" {
			w.key(n.name)
			w.raw(n.text)
		}
	}
	if w.maxTokens > 0 {
		w.key("maxOutputTokens")
		w.integer(w.maxTokens)
	}
	if w.req.Choices > 1 {
		w.key("candidateCount")
		w.integer(w.req.Choices)
	}
	if len(p.Stop) > 0 {
		w.key("stopSequences")
		w.openArray()
		for _, s := range p.Stop {
			w.element()
			w.str(s)
		}
		w.raw("]")
	}
	if len(p.Schema) > 0 {
		w.raw(`,"responseMimeType":"application/json","responseJsonSchema":`)
		w.json(p.Schema)
	}
	w.dst = w.thinking.appendTo(w.dst)
	if len(w.dst) == start {
		return
	}
	const open = `,"generationConfig":{`
	inner := slices.Clone(w.dst[start+len(","):])
	w.dst = append(append(w.dst[:start], open...), inner...)
	w.raw("}")
}

// numbers are the parameters that are one number each, in the order in which they are written.
func numbers(p *chat.Params) []struct{ name, text string } {
	return []struct{ name, text string }{
		{"temperature", p.Temperature},
		{"topP", p.TopP},
		{"topK", p.TopK},
		{"presencePenalty", p.PresencePenalty},
		{"frequencyPenalty", p.FrequencyPenalty},
		{"seed", p.Seed},
	}
}
