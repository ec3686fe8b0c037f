package gemini

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

var _ wire.Shaper = Dialect{}

// Shape changes the answer format of a request. Members keep the client's spelling. A user turn is added if the client prefilled the
// answer. The format cannot limit the number of parallel calls.
func (Dialect) Shape(req *chat.Request, s *wire.Shape) (*chat.Request, error) {
	return wire.ApplyShape(req, s, func(r *wire.Reshape) wire.ShapeWriter { return &shaper{r} })
}

// shaper writes the shape of one request.
type shaper struct{ *wire.Reshape }

// top returns a top-level member, in either spelling, and its key in the request.
func (h *shaper) top(name string) (v jsonx.Value, key string) {
	i := slices.IndexFunc(h.Doc.Members, func(m jsonx.Member) bool { return camel([]byte(m.Key)) == name })
	if i < 0 {
		return v, name
	}
	key = h.Doc.Members[i].Key
	return h.Doc.Get(key), key
}

// isFormat reports whether a member of the generationConfig sets the answer's format.
func isFormat(key string) bool {
	switch camel([]byte(key)) {
	case "responseMimeType", "responseSchema", "responseJsonSchema", "_responseJsonSchema":
		return true
	}
	return false
}

// Format sets the schema, or removes the client's format; the client's other members stay.
func (h *shaper) Format() {
	h.NameSchema()
	config, key := h.top("generationConfig")
	if len(h.Shape.Schema) > 0 {
		h.Edits.Set(h.Doc, key, wire.WithMembers(config, isFormat,
			wire.Member{Key: "responseMimeType", JSON: []byte(`"application/json"`)}, wire.Member{Key: "responseJsonSchema", JSON: h.Shape.Schema}))
		return
	}
	found := false
	for k, v := range config.Members {
		found = found || isFormat(string(k)) && !v.Equal("text/plain")
	}
	if found {
		h.DeleteMembers(key, isFormat)
	}
}

// Tool adds a function to the client's functions, or a tool after tools that are not functions.
func (h *shaper) Tool() {
	t := h.Shape.Tool
	if t == nil {
		return
	}
	b := jsonx.AppendString([]byte(`{"name":`), t.Name)
	if t.Description != "" {
		b = jsonx.AppendString(append(b, `,"description":`...), t.Description)
	}
	b = append(append(append(b, `,"parametersJsonSchema":`...), t.Schema...), '}')
	tools, key := h.top("tools")
	var functions jsonx.Value
	for _, tool := range tools.Each {
		if f := get(tool, "functionDeclarations"); f.Kind() == jsonx.Array {
			functions = f
		}
	}
	if f := get(tools, "functionDeclarations"); f.Kind() == jsonx.Array {
		functions = f
	}
	whole := append(append([]byte(`{"functionDeclarations":[`), b...), "]}"...)
	switch {
	case functions.Exists():
		h.AppendElement(functions, b)
	case tools.Kind() == jsonx.Array:
		h.AppendElement(tools, whole)
	case tools.Kind() == jsonx.Object && !wire.IsEmpty(tools):
		h.Edits.Set(h.Doc, key, slices.Concat([]byte{'['}, tools.Raw, []byte{','}, whole, []byte{']'}))
	default:
		h.Edits.Set(h.Doc, key, append(append([]byte{'['}, whole...), ']'))
	}
}

// Choice sets the mode of function calling; the client's other members stay.
func (h *shaper) Choice() {
	config, key := h.top("toolConfig")
	mode, _ := get(get(config, "functionCallingConfig"), "mode").Str()
	b := []byte(`{"mode":"ANY"}`)
	switch h.Shape.Choice {
	case wire.KeepChoice:
		return
	case wire.ChooseAuto:
		if mode = strings.ToUpper(mode); mode != "ANY" && mode != "NONE" {
			return
		}
		b = []byte(`{"mode":"AUTO"}`)
	case wire.ChooseAny:
	case wire.ChooseShape:
		if h.Shape.Tool == nil {
			return
		}
		b = append(jsonx.AppendString([]byte(`{"mode":"ANY","allowedFunctionNames":[`), h.Shape.Tool.Name), "]}"...)
	}
	name := "functionCallingConfig"
	for k := range config.Members {
		if camel(k) == name {
			name = string(k)
			break
		}
	}
	h.Edits.Set(h.Doc, key, wire.WithMembers(config, nil, wire.Member{Key: name, JSON: b}))
}

// textPart returns a part of text.
func textPart(text string) []byte {
	return append(jsonx.AppendString([]byte(`{"text":`), text), '}')
}

// Guide adds text after the system prompt.
func (h *shaper) Guide() {
	if h.Shape.Guide == "" {
		return
	}
	system, key := h.top("systemInstruction")
	if system.Kind() == jsonx.String && h.AppendText(system, h.Shape.Guide, "\n\n", textPart) || h.addPart(system, h.Shape.Guide) {
		return
	}
	h.Edits.Set(h.Doc, key, append(append([]byte(`{"parts":[`), textPart(h.Shape.Guide)...), "]}"...))
}

// addPart adds a text part to a content; false if it has no parts.
func (h *shaper) addPart(content jsonx.Value, text string) bool {
	switch parts := get(content, "parts"); {
	case wire.IsEmpty(parts):
		return false
	case parts.Kind() == jsonx.Array:
		h.AppendElement(parts, textPart(text))
	case parts.Kind() == jsonx.Object:
		h.Insert(parts.At, []byte{'['})
		h.Insert(parts.At+len(parts.Raw), append(append([]byte{','}, textPart(text)...), ']'))
	default:
		return false
	}
	return true
}

// Turns appends turns to the contents. A first turn of the role of the last content is merged into it.
func (h *shaper) Turns() {
	contents, _ := h.top("contents")
	last := contents
	if contents.Kind() == jsonx.Array {
		for _, c := range contents.Each {
			last = c
		}
	}
	role, _ := get(last, "role").Str()
	model := strings.EqualFold(role, "model")
	turns := h.Shape.AlternatingTurns(model)
	if len(turns) > 0 && turns[0].Assistant == model && !strings.EqualFold(role, "system") && h.addPart(last, turns[0].Text) {
		turns = turns[1:]
	}
	var b []byte
	for i, turn := range turns {
		if i > 0 {
			b = append(b, ',')
		}
		side := "user"
		if turn.Assistant {
			side = "model"
		}
		b = append(append(append(append(append(b, `{"role":"`...), side...), `","parts":[`...), textPart(turn.Text)...), "]}"...)
	}
	switch {
	case len(b) == 0:
	case contents.Kind() == jsonx.Array:
		h.AppendElement(contents, b)
	default: // one content
		h.Insert(contents.At, []byte{'['})
		h.AppendAfter(contents, append(append([]byte{','}, b...), ']'))
	}
}
