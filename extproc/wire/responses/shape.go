package responses

import (
	"cmp"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

var _ wire.Shaper = Dialect{}

// Shape changes the answer format of a request.
func (Dialect) Shape(req *chat.Request, s *wire.Shape) (*chat.Request, error) {
	return wire.ApplyShape(req, s, func(r *wire.Reshape) wire.ShapeWriter { return &shaper{r} })
}

// shaper writes the shape of one request.
type shaper struct{ *wire.Reshape }

// Format sets the schema, or removes the client's format; the client's other members of text stay.
func (h *shaper) Format() {
	text := h.Doc.Get("text")
	if len(h.Shape.Schema) > 0 {
		json, _ := format(&chat.Params{Schema: h.Shape.Schema, SchemaName: h.Shape.Name, SchemaNote: h.Shape.Note, SchemaLoose: h.Shape.Loose})
		h.Edits.Set(h.Doc, "text", wire.WithMembers(text, nil, wire.Member{Key: "format", JSON: json}))
		return
	}
	if f := text.Get("format"); !f.Exists() || f.Get("type").Equal("text") {
		return
	}
	h.DeleteMembers("text", func(key string) bool { return key == "format" })
}

// format returns the member "format" with a schema. It is enforced if the provider accepts it, and the client did not disable that.
func format(p *chat.Params) (json []byte, enforced bool) {
	b := jsonx.AppendString([]byte(`{"type":"json_schema","name":`), cmp.Or(p.SchemaName, "answer"))
	if p.SchemaNote != "" {
		b = jsonx.AppendString(append(b, `,"description":`...), p.SchemaNote)
	}
	b = append(append(b, `,"schema":`...), p.Schema...)
	enforced = !p.SchemaLoose && wire.Enforceable(jsonx.Value{Raw: p.Schema}, wire.ByOpenAI)
	return append(strconv.AppendBool(append(b, `,"strict":`...), enforced), '}'), enforced
}

// Tool adds a function. strict is always written, because its default in this format is true.
func (h *shaper) Tool() {
	t := h.Shape.Tool
	if t == nil {
		return
	}
	b := jsonx.AppendString([]byte(`{"type":"function","name":`), t.Name)
	if t.Description != "" {
		b = jsonx.AppendString(append(b, `,"description":`...), t.Description)
	}
	b = append(append(b, `,"parameters":`...), t.Schema...)
	b = append(strconv.AppendBool(append(b, `,"strict":`...), t.Strict), '}')
	h.AppendToMember("tools", b)
}

// Choice sets the tool choice.
func (h *shaper) Choice() {
	const key = "tool_choice"
	switch h.Shape.Choice {
	case wire.KeepChoice:
	case wire.ChooseAuto:
		if client := h.Doc.Get(key); !client.IsNull() && !client.Equal("auto") {
			h.Edits.Set(h.Doc, key, jsonx.Raw(`"auto"`))
		}
	case wire.ChooseAny:
		h.Edits.Set(h.Doc, key, jsonx.Raw(`"required"`))
	case wire.ChooseShape:
		if h.Shape.Tool == nil {
			return
		}
		h.Edits.Set(h.Doc, key, append(jsonx.AppendString([]byte(`{"type":"function","name":`), h.Shape.Tool.Name), '}'))
		h.Edits.Set(h.Doc, "parallel_tool_calls", jsonx.Raw("false"))
	}
}

// Guide adds text after the instructions, which precede the input's system messages.
func (h *shaper) Guide() {
	if h.Shape.Guide != "" && !h.AppendText(h.Doc.Get("instructions"), h.Shape.Guide, "\n\n", wire.TextBlock) {
		h.Edits.Set(h.Doc, "instructions", jsonx.AppendString(nil, h.Shape.Guide))
	}
}

// Turns appends turns to the input.
func (h *shaper) Turns() {
	b := wire.Messages(h.Shape.TextTurns())
	if len(b) == 0 {
		return
	}
	input := h.Doc.Get("input")
	switch input.Kind() {
	case jsonx.Array:
		h.AppendElement(input, b)
	case jsonx.String:
		h.Insert(input.At, []byte(`[{"role":"user","content":`))
		h.AppendAfter(input, append(append([]byte(`},`), b...), ']'))
	default: // the provider stores the conversation
		h.Edits.Set(h.Doc, "input", append(append([]byte{'['}, b...), ']'))
	}
}
