package openai

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

var _ wire.Shaper = Dialect{}

// Shape changes the answer format of a request. Legacy functions stay legacy. They cannot require a call of any of several functions, so
// that choice is left to the model.
func (Dialect) Shape(req *chat.Request, s *wire.Shape) (*chat.Request, error) {
	return wire.ApplyShape(req, s, func(r *wire.Reshape) wire.ShapeWriter {
		return &shaper{Reshape: r, legacy: r.Doc.Get("functions").Kind() == jsonx.Array && r.Doc.Get("tools").IsNull()}
	})
}

// shaper writes the shape of one request.
type shaper struct {
	*wire.Reshape
	legacy bool // it has functions and no tools
}

const keyFormat = "response_format"

// Format sets the schema, or removes the client's format unless that is plain text.
func (h *shaper) Format() {
	switch {
	case len(h.Shape.Schema) > 0:
		value, _ := format(&chat.Params{Schema: h.Shape.Schema, SchemaName: h.Shape.Name, SchemaNote: h.Shape.Note, SchemaLoose: h.Shape.Loose})
		h.Edits.Set(h.Doc, keyFormat, value)
	case !h.Doc.Get(keyFormat).Get("type").Equal("text"):
		h.Edits.Delete(h.Doc, keyFormat)
	}
}

// Tool adds a tool to the client's own.
func (h *shaper) Tool() {
	t := h.Shape.Tool
	if t == nil {
		return
	}
	f := function(t)
	key := "functions"
	if !h.legacy {
		key = "tools"
		f = append(append([]byte(`{"type":"function","function":`), f...), '}')
	}
	h.AppendToMember(key, f)
}

// function writes a tool as a function object.
func function(t *chat.Tool) []byte {
	b := jsonx.AppendString([]byte(`{"name":`), t.Name)
	if t.Description != "" {
		b = jsonx.AppendString(append(b, `,"description":`...), t.Description)
	}
	b = append(append(b, `,"parameters":`...), t.Schema...)
	if t.Strict {
		b = append(b, `,"strict":true`...)
	}
	return append(b, '}')
}

// Choice sets the tool choice, in the member that the request has for it.
func (h *shaper) Choice() {
	key, one := "tool_choice", `"required"`
	if h.legacy {
		key, one = "function_call", `"auto"`
	}
	switch h.Shape.Choice {
	case wire.KeepChoice:
	case wire.ChooseAuto:
		if !h.Doc.Get(key).IsNull() && !h.Doc.Get(key).Equal("auto") {
			h.Edits.Set(h.Doc, key, jsonx.Raw(`"auto"`))
		}
	case wire.ChooseAny:
		h.Edits.Set(h.Doc, key, jsonx.Raw(one))
	case wire.ChooseShape:
		h.chooseShape(key)
	}
}

// chooseShape requires one call of the shape's tool.
func (h *shaper) chooseShape(key string) {
	if h.Shape.Tool == nil {
		return
	}
	name := append(jsonx.AppendString([]byte(`{"name":`), h.Shape.Tool.Name), '}')
	if h.legacy {
		h.Edits.Set(h.Doc, key, name)
		return
	}
	h.Edits.Set(h.Doc, key, append(append([]byte(`{"type":"function","function":`), name...), '}'))
	h.Edits.Set(h.Doc, "parallel_tool_calls", strconv.AppendBool(nil, false))
}

// Guide adds text after the system prompt: to the last system message, else as a new one.
func (h *shaper) Guide() {
	if h.Shape.Guide == "" {
		return
	}
	messages := h.Doc.Get("messages")
	var last jsonx.Value
	for _, m := range messages.Each {
		if role := m.Get("role"); !role.Equal("system") && !role.Equal("developer") {
			break
		}
		last = m
	}
	if last.Exists() && h.AppendText(last.Get("content"), h.Shape.Guide, "\n\n", wire.TextBlock) {
		return
	}
	message := append(jsonx.AppendString([]byte(`{"role":"system","content":`), h.Shape.Guide), '}')
	if last.Exists() {
		h.Insert(last.At+len(last.Raw), append([]byte{','}, message...))
		return
	}
	h.Insert(messages.At+1, append(message, ','))
}

// Turns appends turns to the messages.
func (h *shaper) Turns() {
	if b := wire.Messages(h.Shape.TextTurns()); len(b) > 0 {
		h.AppendElement(h.Doc.Get("messages"), b)
	}
}
