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
	for i := range w.Conv.Tools {
		t := &w.Conv.Tools[i]
		if t.CacheControl != nil {
			w.Lose("cache_control")
		}
		if t.Raw == nil {
			functions = append(functions, t)
			continue
		}
		kind, _ := jsonx.Value{Raw: t.Raw}.Get("type").Str()
		w.Name(kind)
		if w.choice.Mode == chat.ToolNamed && w.choice.Name == t.Name {
			w.Lose("tool_choice")
			w.choice = chat.ToolChoice{}
		}
	}
	if len(functions) == 0 {
		if w.choice.Mode == chat.ToolAny || w.choice.Mode == chat.ToolNamed {
			w.Lose("tool_choice")
		}
		if w.searches {
			w.Key("tools")
			w.Raw(searchTool)
		}
		return
	}
	w.Raw(`,"tools":[{"functionDeclarations":`)
	w.OpenArray()
	for _, t := range functions {
		w.function(t)
	}
	w.Raw("]}]")
	if p := w.Conv.ParallelTools; p != nil && !*p && w.choice.Mode != chat.ToolNone {
		w.Lose("disable_parallel_tool_use")
	}
	w.toolConfig()
}

func (w *writer) function(t *chat.Tool) {
	w.Element()
	w.Raw(`{"name":`)
	w.Str(t.Name)
	if t.Description != "" {
		w.Key("description")
		w.Str(t.Description)
	}
	if len(t.Schema) > 0 {
		w.Key("parametersJsonSchema")
		w.JSON(t.Schema)
	}
	if t.Strict && !w.validated {
		w.Lose("strict")
	}
	w.Raw("}")
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
	w.Raw(`,"toolConfig":{"functionCallingConfig":{"mode":"` + mode + `"`)
	if w.choice.Mode == chat.ToolNamed {
		w.Raw(`,"allowedFunctionNames":[`)
		w.Str(w.choice.Name)
		w.Raw("]")
	}
	w.Raw("}}")
}

// config writes the generationConfig.
func (w *writer) config() {
	p := &w.params
	start := len(w.Dst)
	for _, n := range numbers(p) {
		if n.text != "" {
			w.Key(n.name)
			w.Raw(n.text)
		}
	}
	if w.maxTokens > 0 {
		w.Key("maxOutputTokens")
		w.Integer(w.maxTokens)
	}
	if w.req.Choices > 1 {
		w.Key("candidateCount")
		w.Integer(w.req.Choices)
	}
	if len(p.Stop) > 0 {
		w.Key("stopSequences")
		w.OpenArray()
		for _, s := range p.Stop {
			w.Element()
			w.Str(s)
		}
		w.Raw("]")
	}
	switch {
	case len(p.Schema) > 0:
		w.Raw(`,"responseMimeType":"` + mimeJSON + `","responseJsonSchema":`)
		w.JSON(p.Schema)
	case p.JSONMode:
		w.Raw(`,"responseMimeType":"` + mimeJSON + `"`)
	}
	w.Dst = w.thinking.appendTo(w.Dst)
	if len(w.Dst) == start {
		return
	}
	const open = `,"generationConfig":{`
	inner := slices.Clone(w.Dst[start+len(","):])
	w.Dst = append(append(w.Dst[:start], open...), inner...)
	w.Raw("}")
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
