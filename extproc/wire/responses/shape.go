package responses

import (
	"cmp"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

var _ wire.Shaper = Dialect{}

// Shape changes how a request asks for the form of its answer.
func (Dialect) Shape(req *chat.Request, s *wire.Shape) (*chat.Request, error) {
	r, err := wire.NewReshape(req)
	if err != nil {
		return nil, err
	}
	h := shaper{Reshape: r, s: s}
	if !s.Same(req) {
		h.format()
	}
	h.tool()
	h.choice()
	h.guide()
	h.say()
	return r.Request()
}

// shaper shapes one request.
type shaper struct {
	*wire.Reshape
	s *wire.Shape
}

// format sets the schema, or takes it out, beside what else the client says of the answer's text.
func (h *shaper) format() {
	text := h.Doc.Get("text")
	if len(h.s.Schema) > 0 {
		json, _ := format(&chat.Params{Schema: h.s.Schema, SchemaName: h.s.Name, SchemaNote: h.s.Note, SchemaLoose: h.s.Loose})
		h.Edits.Set(h.Doc, "text", wire.WithMembers(text, nil, wire.Member{Key: "format", JSON: json}))
		return
	}
	if f := text.Get("format"); !f.Exists() || f.Get("type").Equal("text") {
		return
	}
	rest := wire.WithMembers(text, func(key string) bool { return key == "format" })
	if wire.IsEmpty(jsonx.Value{Raw: rest}) {
		h.Edits.Delete(h.Doc, "text")
		return
	}
	h.Edits.Set(h.Doc, "text", rest)
}

// format is a schema of the answer as this format says it. It is enforced where the provider takes it, and the client did not ask for less.
func format(p *chat.Params) (json []byte, enforced bool) {
	b := jsonx.AppendString([]byte(`{"type":"json_schema","name":`), cmp.Or(p.SchemaName, "answer"))
	if p.SchemaNote != "" {
		b = jsonx.AppendString(append(b, `,"description":`...), p.SchemaNote)
	}
	b = append(append(b, `,"schema":`...), p.Schema...)
	enforced = !p.SchemaLoose && wire.Enforceable(jsonx.Value{Raw: p.Schema}, wire.ByOpenAI)
	return append(strconv.AppendBool(append(b, `,"strict":`...), enforced), '}'), enforced
}

// tool adds a function. It says whether it is strict, which here is what saying nothing means.
func (h *shaper) tool() {
	t := h.s.Tool
	if t == nil {
		return
	}
	b := jsonx.AppendString([]byte(`{"type":"function","name":`), t.Name)
	if t.Description != "" {
		b = jsonx.AppendString(append(b, `,"description":`...), t.Description)
	}
	b = append(append(b, `,"parameters":`...), t.Schema...)
	b = append(strconv.AppendBool(append(b, `,"strict":`...), t.Strict), '}')
	if tools := h.Doc.Get("tools"); tools.Kind() == jsonx.Array {
		h.Add(tools, b)
		return
	}
	h.Edits.Set(h.Doc, "tools", append(append([]byte{'['}, b...), ']'))
}

func (h *shaper) choice() {
	const key = "tool_choice"
	switch h.s.Choice {
	case wire.KeepChoice:
	case wire.ChooseAuto:
		if client := h.Doc.Get(key); !client.IsNull() && !client.Equal("auto") {
			h.Edits.Set(h.Doc, key, jsonx.Raw(`"auto"`))
		}
	case wire.ChooseAny:
		h.Edits.Set(h.Doc, key, jsonx.Raw(`"required"`))
	case wire.ChooseShape:
		if h.s.Tool == nil {
			return
		}
		h.Edits.Set(h.Doc, key, append(jsonx.AppendString([]byte(`{"type":"function","name":`), h.s.Tool.Name), '}'))
		h.Edits.Set(h.Doc, "parallel_tool_calls", jsonx.Raw("false"))
	}
}

// guide puts words behind the instructions. What the input says as the system stands behind those anyway.
func (h *shaper) guide() {
	if h.s.Guide != "" && !h.Follow(h.Doc.Get("instructions"), h.s.Guide, "\n\n", wire.TextBlock) {
		h.Edits.Set(h.Doc, "instructions", jsonx.AppendString(nil, h.s.Guide))
	}
}

// say puts turns behind the input.
func (h *shaper) say() {
	var b []byte
	for i, turn := range h.s.Turns() {
		if i > 0 {
			b = append(b, ',')
		}
		role := "user"
		if turn.Assistant {
			role = "assistant"
		}
		b = append(jsonx.AppendString(append(append(append(b, `{"role":"`...), role...), `","content":`...), turn.Text), '}')
	}
	if len(b) == 0 {
		return
	}
	input := h.Doc.Get("input")
	switch input.Kind() {
	case jsonx.Array:
		h.Add(input, b)
	case jsonx.String:
		h.Insert(input.At, []byte(`[{"role":"user","content":`))
		h.Extend(input, append(append([]byte(`},`), b...), ']'))
	default: // it goes on from what its provider keeps
		h.Edits.Set(h.Doc, "input", append(append([]byte{'['}, b...), ']'))
	}
}
