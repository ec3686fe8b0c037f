package openai

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// maxUser is how long OpenAI lets a user's name be.
const maxUser = 64

// tools writes the functions; tools that run at the other dialect's provider cannot be said.
func (w *writer) tools() {
	functions := 0
	for i := range w.conv.Tools {
		if t := &w.conv.Tools[i]; t.Raw != nil {
			kind, _ := jsonx.Value{Raw: t.Raw}.Get("type").Str()
			w.name(kind)
			continue
		}
		functions++
	}
	if functions == 0 {
		if mode := w.conv.ToolChoice.Mode; mode == chat.ToolAny || mode == chat.ToolNamed {
			w.lose("tool_choice")
		}
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
	w.str(toolName(t.Name))
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
	switch {
	case !t.Strict:
	case wire.Enforceable(jsonx.Value{Raw: t.Schema}, wire.ByOpenAI):
		w.raw(`,"strict":true`)
	default:
		w.lose("strict")
	}
	w.raw("}")
	w.mark(t.CacheControl)
	w.raw("}")
}

func (w *writer) toolChoice() {
	switch choice := w.conv.ToolChoice; choice.Mode {
	case chat.ToolAuto:
	case chat.ToolNone:
		w.raw(`,"tool_choice":"none"`)
	case chat.ToolAny:
		w.raw(`,"tool_choice":"required"`)
	case chat.ToolNamed:
		if slices.ContainsFunc(w.conv.Tools, func(t chat.Tool) bool { return t.Name == choice.Name && t.Raw != nil }) {
			w.lose("tool_choice")
			return
		}
		w.raw(`,"tool_choice":{"type":"function","function":{"name":`)
		w.str(toolName(choice.Name))
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
	w.sampling(p)
	w.number("seed", p.Seed)
	w.stop(p.Stop)
	if p.ServiceTier == chat.TierStandard {
		w.raw(`,"service_tier":"default"`)
	}
	w.endUser(p.User)
	w.effort(p)
	w.format(p)
}

// sampling writes how the model draws its words. One that draws them as it will takes no word about it but 1, which
// means the same.
func (w *writer) sampling(p *chat.Params) {
	for i, text := range [...]string{p.Temperature, p.TopP, p.PresencePenalty, p.FrequencyPenalty} {
		switch {
		case !w.opts.FixedSampling:
			w.number(sampling[i].key, text)
		case text != "" && !usual(text, sampling[i].usual):
			w.lose(sampling[i].key)
		}
	}
	if p.TopK != "" {
		w.lose("top_k")
	}
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
	most := len(sequences)
	switch {
	case w.opts.FixedSampling:
		most = 0
	case w.opts.MaxStop > 0:
		most = min(most, w.opts.MaxStop)
	}
	if most < len(sequences) {
		w.lose("stop_sequences")
		sequences = sequences[:most]
	}
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
		w.lose("user_id")
	default:
		w.key("user")
		w.str(name)
	}
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
	if p.SchemaNote != "" {
		w.key("description")
		w.str(p.SchemaNote)
	}
	w.key("schema")
	w.json(p.Schema)
	w.key("strict")
	strict := wire.Enforceable(jsonx.Value{Raw: p.Schema}, wire.ByOpenAI)
	w.boolean(strict)
	if !strict { // the schema is told, and not enforced
		w.lose("format")
	}
	w.raw("}}")
}
