package gemini

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

var _ wire.Shaper = Dialect{}

// Shape changes how a request asks for the form of its answer. Members keep the spelling that the client has for them. An answer that the
// client began is no place for a form: the user's turn follows it. How many calls there may be at once, this format cannot say.
func (Dialect) Shape(req *chat.Request, s *wire.Shape) (*chat.Request, error) {
	return wire.ApplyShape(req, s, func(r *wire.Reshape) wire.ShapeWriter { return &shaper{r} })
}

// shaper writes the shape of one request.
type shaper struct{ *wire.Reshape }

// top is a member at the top, in either spelling, and the client's own key of it.
func (h *shaper) top(name string) (v jsonx.Value, key string) {
	i := slices.IndexFunc(h.Doc.Members, func(m jsonx.Member) bool { return camel([]byte(m.Key)) == name })
	if i < 0 {
		return v, name
	}
	key = h.Doc.Members[i].Key
	return h.Doc.Get(key), key
}

// isForm reports whether a member of the generationConfig asks for a form.
func isForm(key string) bool {
	switch camel([]byte(key)) {
	case "responseMimeType", "responseSchema", "responseJsonSchema", "_responseJsonSchema":
		return true
	}
	return false
}

// Format sets the schema, or takes it out, beside what else the client says there.
func (h *shaper) Format() {
	h.NameSchema()
	config, key := h.top("generationConfig")
	if len(h.Shape.Schema) > 0 {
		h.Edits.Set(h.Doc, key, wire.WithMembers(config, isForm,
			wire.Member{Key: "responseMimeType", JSON: []byte(`"application/json"`)}, wire.Member{Key: "responseJsonSchema", JSON: h.Shape.Schema}))
		return
	}
	asks := false
	for k, v := range config.Members {
		asks = asks || isForm(string(k)) && !v.Equal("text/plain")
	}
	if asks {
		h.DeleteMembers(key, isForm)
	}
}

// Tool adds a function to the client's own, or a tool behind those that are none.
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
		h.Add(functions, b)
	case tools.Kind() == jsonx.Array:
		h.Add(tools, whole)
	case tools.Kind() == jsonx.Object && !wire.IsEmpty(tools):
		h.Edits.Set(h.Doc, key, slices.Concat([]byte{'['}, tools.Raw, []byte{','}, whole, []byte{']'}))
	default:
		h.Edits.Set(h.Doc, key, append(append([]byte{'['}, whole...), ']'))
	}
}

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

// textPart is a part of text.
func textPart(text string) []byte {
	return append(jsonx.AppendString([]byte(`{"text":`), text), '}')
}

func (h *shaper) Guide() {
	if h.Shape.Guide == "" {
		return
	}
	system, key := h.top("systemInstruction")
	if system.Kind() == jsonx.String && h.Follow(system, h.Shape.Guide, "\n\n", textPart) || h.another(system, h.Shape.Guide) {
		return
	}
	h.Edits.Set(h.Doc, key, append(append([]byte(`{"parts":[`), textPart(h.Shape.Guide)...), "]}"...))
}

// another adds a part to a content; false if it has none yet.
func (h *shaper) another(content jsonx.Value, text string) bool {
	switch parts := get(content, "parts"); {
	case wire.IsEmpty(parts):
		return false
	case parts.Kind() == jsonx.Array:
		h.Add(parts, textPart(text))
	case parts.Kind() == jsonx.Object:
		h.Insert(parts.At, []byte{'['})
		h.Insert(parts.At+len(parts.Raw), append(append([]byte{','}, textPart(text)...), ']'))
	default:
		return false
	}
	return true
}

// Turns puts turns behind the contents. A first turn of the role that the request ends with is joined to its last content.
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
	if len(turns) > 0 && turns[0].Assistant == model && !strings.EqualFold(role, "system") && h.another(last, turns[0].Text) {
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
		h.Add(contents, b)
	default: // one turn alone
		h.Insert(contents.At, []byte{'['})
		h.Extend(contents, append(append([]byte{','}, b...), ']'))
	}
}
