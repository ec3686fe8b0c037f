package anthropic

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

var _ wire.Shaper = Dialect{}

// Shape changes how a request asks for the form of its answer. An answer that the client began is no place for a form: the user's turn
// follows it, since the API refuses the one beside the other.
func (Dialect) Shape(req *chat.Request, s *wire.Shape) (*chat.Request, error) {
	r, err := wire.NewReshape(req)
	if err != nil {
		return nil, err
	}
	h := shaper{Reshape: r, s: s}
	if !s.Same(req) {
		h.format()
		r.Name(s)
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

// format sets the schema, or takes it out, beside what else the client says there.
func (h *shaper) format() {
	h.Edits.Delete(h.Doc, "output_format") // its old name
	config := h.Doc.Get(outputConfig)
	if len(h.s.Schema) > 0 {
		format := slices.Concat([]byte(`{"type":"json_schema","schema":`), h.s.Schema, []byte("}"))
		h.Edits.Set(h.Doc, outputConfig, wire.WithMembers(config, nil, wire.Member{Key: "format", JSON: format}))
		return
	}
	if !config.Get("format").Exists() {
		return
	}
	rest := wire.WithMembers(config, func(key string) bool { return key == "format" })
	if wire.IsEmpty(jsonx.Value{Raw: rest}) {
		h.Edits.Delete(h.Doc, outputConfig)
		return
	}
	h.Edits.Set(h.Doc, outputConfig, rest)
}

func (h *shaper) tool() {
	t := h.s.Tool
	if t == nil {
		return
	}
	b := jsonx.AppendString([]byte(`{"name":`), t.Name)
	if t.Description != "" {
		b = jsonx.AppendString(append(b, `,"description":`...), t.Description)
	}
	b = append(append(b, `,"input_schema":`...), t.Schema...)
	if t.Strict {
		b = append(b, `,"strict":true`...)
	}
	b = append(b, '}')
	if tools := h.Doc.Get("tools"); tools.Kind() == jsonx.Array {
		h.Add(tools, b)
		return
	}
	h.Edits.Set(h.Doc, "tools", append(append([]byte{'['}, b...), ']'))
}

// choice says how tools are to be used. How many at once stays as the client said it. A model that is told to think is not told that it
// must use a tool, which the API refuses (K-21).
func (h *shaper) choice() {
	client := h.Doc.Get("tool_choice")
	choice := h.s.Choice
	if kind := h.Doc.Get("thinking").Get("type"); choice != wire.KeepChoice && (kind.Equal("enabled") || kind.Equal("adaptive")) {
		choice = wire.ChooseAuto
	}
	var b []byte
	switch choice {
	case wire.KeepChoice:
		return
	case wire.ChooseAuto:
		if client.IsNull() || client.Get("type").Equal("auto") {
			return
		}
		b = []byte(`{"type":"auto"`)
	case wire.ChooseAny:
		b = []byte(`{"type":"any"`)
	case wire.ChooseShape:
		if h.s.Tool == nil {
			return
		}
		b = jsonx.AppendString([]byte(`{"type":"tool","name":`), h.s.Tool.Name)
	}
	alone, _ := client.Get("disable_parallel_tool_use").Bool()
	if alone || choice == wire.ChooseShape {
		b = append(b, `,"disable_parallel_tool_use":true`...)
	}
	h.Edits.Set(h.Doc, "tool_choice", append(b, '}'))
}

func (h *shaper) guide() {
	if h.s.Guide != "" && !h.Follow(h.Doc.Get("system"), h.s.Guide, "\n\n", wire.TextBlock) {
		h.Edits.Set(h.Doc, "system", jsonx.AppendString(nil, h.s.Guide))
	}
}

// say puts turns behind the messages. What the side says that spoke last goes on where it ended.
func (h *shaper) say() {
	messages := h.Doc.Get("messages")
	var last jsonx.Value
	for _, m := range messages.Each {
		last = m
	}
	turns := h.s.Turns()
	assistant := last.Get("role").Equal("assistant")
	if n := len(turns); n > 0 && turns[n-1].Assistant || n == 0 && assistant && h.asks() {
		turns = append(turns, proceed())
	}
	if len(turns) > 0 && turns[0].Assistant == assistant && !last.Get("role").Equal("system") {
		between := "\n\n"
		if assistant {
			between = "" // it goes on in the word
		}
		if h.Follow(last.Get("content"), turns[0].Text, between, wire.TextBlock) {
			turns = turns[1:]
		}
	}
	var b []byte
	for i, turn := range turns {
		if i > 0 {
			b = append(b, ',')
		}
		role := "user"
		if turn.Assistant {
			role = "assistant"
		}
		b = append(jsonx.AppendString(append(append(append(b, `{"role":"`...), role...), `","content":`...), turn.Text), '}')
	}
	if len(b) > 0 {
		h.Add(messages, b)
	}
}

// asks reports whether the shape asks for a form.
func (h *shaper) asks() bool { return len(h.s.Schema) > 0 || h.s.Tool != nil || h.s.Guide != "" }

func proceed() wire.Said {
	turn := wire.Proceed()
	return wire.Said{Text: turn.Parts[0].Text}
}
