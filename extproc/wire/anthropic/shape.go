package anthropic

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

var _ wire.Shaper = Dialect{}

// Shape changes the answer format of a request. If the client prefilled the answer, a user turn is added, because the API refuses a format
// together with a prefill.
func (Dialect) Shape(req *chat.Request, s *wire.Shape) (*chat.Request, error) {
	return wire.ApplyShape(req, s, func(r *wire.Reshape) wire.ShapeWriter { return &shaper{r} })
}

// shaper writes the shape of one request.
type shaper struct{ *wire.Reshape }

// Format sets the schema, or removes the client's format; the client's other members stay.
func (h *shaper) Format() {
	h.NameSchema()
	h.Edits.Delete(h.Doc, "output_format") // its name in the beta
	config := h.Doc.Get(outputConfig)
	if len(h.Shape.Schema) > 0 {
		format := slices.Concat([]byte(`{"type":"json_schema","schema":`), h.Shape.Schema, []byte("}"))
		h.Edits.Set(h.Doc, outputConfig, wire.WithMembers(config, nil, wire.Member{Key: "format", JSON: format}))
		return
	}
	if !config.Get("format").Exists() {
		return
	}
	h.DeleteMembers(outputConfig, func(key string) bool { return key == "format" })
}

// Tool adds a tool to the client's own.
func (h *shaper) Tool() {
	t := h.Shape.Tool
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
	h.AppendToMember("tools", b)
}

// Choice sets the tool choice; the client's limit to one call stays. A model that thinks is not required to use a tool, which the API
// refuses (K-21).
func (h *shaper) Choice() {
	client := h.Doc.Get("tool_choice")
	choice := h.Shape.Choice
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
		if h.Shape.Tool == nil {
			return
		}
		b = jsonx.AppendString([]byte(`{"type":"tool","name":`), h.Shape.Tool.Name)
	}
	alone, _ := client.Get("disable_parallel_tool_use").Bool()
	if alone || choice == wire.ChooseShape {
		b = append(b, `,"disable_parallel_tool_use":true`...)
	}
	h.Edits.Set(h.Doc, "tool_choice", append(b, '}'))
}

// Guide adds text after the system prompt.
func (h *shaper) Guide() {
	if h.Shape.Guide != "" && !h.AppendText(h.Doc.Get("system"), h.Shape.Guide, "\n\n", wire.TextBlock) {
		h.Edits.Set(h.Doc, "system", jsonx.AppendString(nil, h.Shape.Guide))
	}
}

// Turns appends turns to the messages. A first turn of the role of the last message is merged into it.
func (h *shaper) Turns() {
	messages := h.Doc.Get("messages")
	var last jsonx.Value
	for _, m := range messages.Each {
		last = m
	}
	assistant := last.Get("role").Equal("assistant")
	turns := h.Shape.AlternatingTurns(assistant)
	if len(turns) > 0 && turns[0].Assistant == assistant && !last.Get("role").Equal("system") {
		between := "\n\n"
		if assistant {
			between = "" // the assistant's text continues without a separator
		}
		if h.AppendText(last.Get("content"), turns[0].Text, between, wire.TextBlock) {
			turns = turns[1:]
		}
	}
	if b := wire.Messages(turns); len(b) > 0 {
		h.AppendElement(messages, b)
	}
}
