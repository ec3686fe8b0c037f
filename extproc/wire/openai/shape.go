package openai

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

var _ wire.Shaper = Dialect{}

// Shape changes how a request asks for the form of its answer. Legacy functions stay legacy: of their choice, there is no word for any of
// them, which is left to the model.
func (Dialect) Shape(req *chat.Request, s *wire.Shape) (*chat.Request, error) {
	r, err := wire.NewReshape(req)
	if err != nil {
		return nil, err
	}
	h := shaper{Reshape: r, s: s, legacy: r.Doc.Get("functions").Kind() == jsonx.Array && r.Doc.Get("tools").IsNull()}
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
	s      *wire.Shape
	legacy bool
}

const keyFormat = "response_format"

func (h *shaper) format() {
	switch {
	case len(h.s.Schema) > 0:
		value, _ := format(&chat.Params{Schema: h.s.Schema, SchemaName: h.s.Name, SchemaNote: h.s.Note, SchemaLoose: h.s.Loose})
		h.Edits.Set(h.Doc, keyFormat, value)
	case !h.Doc.Get(keyFormat).Get("type").Equal("text"):
		h.Edits.Delete(h.Doc, keyFormat)
	}
}

func (h *shaper) tool() {
	t := h.s.Tool
	if t == nil {
		return
	}
	f := function(t)
	key := "functions"
	if !h.legacy {
		key = "tools"
		f = append(append([]byte(`{"type":"function","function":`), f...), '}')
	}
	if list := h.Doc.Get(key); list.Kind() == jsonx.Array {
		h.Add(list, f)
		return
	}
	h.Edits.Set(h.Doc, key, append(append([]byte{'['}, f...), ']'))
}

// function is a tool as a function.
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

func (h *shaper) choice() {
	key, one := "tool_choice", `"required"`
	if h.legacy {
		key, one = "function_call", `"auto"`
	}
	switch h.s.Choice {
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

// chooseShape has the shape's tool called, once.
func (h *shaper) chooseShape(key string) {
	if h.s.Tool == nil {
		return
	}
	name := append(jsonx.AppendString([]byte(`{"name":`), h.s.Tool.Name), '}')
	if h.legacy {
		h.Edits.Set(h.Doc, key, name)
		return
	}
	h.Edits.Set(h.Doc, key, append(append([]byte(`{"type":"function","function":`), name...), '}'))
	h.Edits.Set(h.Doc, "parallel_tool_calls", strconv.AppendBool(nil, false))
}

// guide puts words behind the system prompt: into the last of its messages, else into one of their own behind them.
func (h *shaper) guide() {
	if h.s.Guide == "" {
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
	if last.Exists() && h.Follow(last.Get("content"), h.s.Guide, "\n\n", wire.TextBlock) {
		return
	}
	message := append(jsonx.AppendString([]byte(`{"role":"system","content":`), h.s.Guide), '}')
	if last.Exists() {
		h.Insert(last.At+len(last.Raw), append([]byte{','}, message...))
		return
	}
	h.Insert(messages.At+1, append(message, ','))
}

// say puts turns behind the messages.
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
	if len(b) > 0 {
		h.Add(h.Doc.Get("messages"), b)
	}
}
