package gemini

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// searchTool lets the model search the web.
const searchTool = `[{"googleSearch":{}}]`

// tools writes the functions. Tools of the client's dialect only are named as degraded.
func (w *writer) tools() {
	functions := w.OwnTools(w.Conv.Tools, &w.choice, func(t *chat.Tool) {
		if t.CacheControl != nil {
			w.Degrade("cache_control")
		}
	})
	if len(functions) == 0 {
		if w.searches {
			w.Key("tools")
			w.Raw(searchTool)
		}
		return
	}
	w.Raw(`,"tools":[{"functionDeclarations":`)
	w.OpenArray()
	for i := range functions {
		w.function(&functions[i])
	}
	w.Raw("]}]")
	if p := w.Conv.ParallelTools; p != nil && !*p && w.choice.Mode != chat.ToolNone {
		w.Degrade("disable_parallel_tool_use")
	}
	w.toolConfig()
}

func (w *writer) function(t *chat.Tool) {
	w.Element()
	w.Raw(`{"name":`)
	w.Str(wire.ToolName(t.Name, chat.Gemini))
	if t.Description != "" {
		w.Key("description")
		w.Str(t.Description)
	}
	if len(t.Schema) > 0 {
		w.Key("parametersJsonSchema")
		w.JSON(t.Schema)
	}
	if t.Strict && !w.validated {
		w.Degrade("strict")
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
		w.Str(wire.ToolName(w.choice.Name, chat.Gemini))
		w.Raw("]")
	}
	w.Raw("}}")
}

// config writes the generationConfig.
func (w *writer) config() {
	p := &w.params
	start := len(w.Dst)
	for _, n := range numbers(p) {
		w.Number(n.name, n.text)
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

// numbers returns the numeric parameters in the order in which they are written.
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
