package transcript

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// ReplaceTools removes the tools for which keep is false, and inserts others before the rest. It returns false, and changes nothing, for a
// request without a list of tools. Calls in the conversation are not changed: see WrapCalls.
func (t *Transcript) ReplaceTools(keep func(i int) bool, add ...chat.Tool) bool {
	first := -1
	for i := range t.Tools {
		if t.Tools[i].list >= 0 && !t.Tools[i].nested(t) {
			first = t.Tools[i].list
			break
		}
	}
	if first < 0 {
		return false
	}
	for list := range t.lists {
		if list == first || t.hasTools(list) {
			t.Replace(t.lists[list], t.toolList(list, keep, add, list == first))
		}
	}
	return true
}

// AddTool appends a tool to the request's own, which keep their bytes.
func (t *Transcript) AddTool(tool *chat.Tool) {
	def, list := t.definition(tool), -1
	for i := range t.Tools {
		if !t.Tools[i].nested(t) {
			list = t.Tools[i].list
		}
	}
	if list < 0 && t.req.Dialect == chat.Gemini {
		def = append(append([]byte(`{"functionDeclarations":[`), def...), "]}"...)
	}
	if list < 0 && len(t.Tools) > 0 { // only Google's own tools, which need a separate list of functions
		list = t.Tools[0].list
	}
	t.changed = true
	if list < 0 {
		t.edits.Set(&t.doc, "tools", append(append([]byte{'['}, def...), ']'))
		return
	}
	at := t.lists[list].At + 1
	for _, e := range t.lists[list].Each {
		at, def = e.At+len(e.Raw), append([]byte{','}, bytes.TrimPrefix(def, []byte{','})...)
	}
	t.edits.Replace(at, at, def)
}

// nested reports whether a tool of Gemini's is not a function, and is listed next to lists of functions.
func (tool *Tool) nested(t *Transcript) bool {
	return t.req.Dialect == chat.Gemini && tool.Builtin
}

func (t *Transcript) hasTools(list int) bool {
	for i := range t.Tools {
		if t.Tools[i].list == list && !t.Tools[i].nested(t) {
			return true
		}
	}
	return false
}

// toolList returns the rewritten list of tools.
func (t *Transcript) toolList(list int, keep func(i int) bool, add []chat.Tool, first bool) jsonx.Raw {
	out := []byte{'['}
	for i := range add {
		if first {
			out = append(append(out, t.definition(&add[i])...), ',')
		}
	}
	for i := range t.Tools {
		if t.Tools[i].list == list && keep(i) {
			out = append(append(out, t.Tools[i].Value.Raw...), ',')
		}
	}
	if n := len(out); n > 1 {
		out = out[:n-1]
	}
	return append(out, ']')
}

// definition writes a tool in the request's format.
func (t *Transcript) definition(tool *chat.Tool) []byte {
	open, schema, end := `{"type":"function","function":{"name":`, `,"parameters":`, "}}"
	switch t.req.Dialect { //nolint:exhaustive // the others have no tools
	case chat.Anthropic:
		open, schema, end = `{"name":`, `,"input_schema":`, "}"
	case chat.Responses:
		open, end = `{"type":"function","name":`, `,"strict":false}`
	case chat.Gemini:
		open, schema, end = `{"name":`, `,"parametersJsonSchema":`, "}"
	}
	b := jsonx.AppendString([]byte(open), tool.Name)
	b = jsonx.AppendString(append(b, `,"description":`...), tool.Description)
	return append(append(append(b, schema...), tool.Schema...), end...)
}

// WrapCalls rewrites calls of the tools that hidden reports as calls of wrapper with the arguments {"name": ..., "arguments": ...}: the
// original name and arguments. Results are renamed as well in formats that identify them by name.
func (t *Transcript) WrapCalls(wrapper string, hidden func(tool string) bool) {
	for i := range t.Turns {
		for j := range t.Turns[i].Calls {
			if c := &t.Turns[i].Calls[j]; hidden(c.Name) && c.name.Exists() {
				t.wrap(c, wrapper)
			}
		}
	}
	for _, v := range t.names {
		if name, _ := v.Str(); hidden(name) {
			t.Replace(v, jsonx.AppendString(nil, wrapper))
		}
	}
}

func (t *Transcript) wrap(c *Call, wrapper string) {
	args := []byte(c.args.Raw)
	text, isText := c.args.Str()
	if isText {
		args = []byte(text)
	}
	if v, err := jsonx.Parse(args); err != nil || v.Kind() != jsonx.Object {
		args = []byte("{}")
	}
	inner := jsonx.AppendString([]byte(`{"name":`), c.Name)
	inner = append(append(append(inner, `,"arguments":`...), args...), '}')
	name := jsonx.AppendString(nil, wrapper)
	switch {
	case isText:
		inner = jsonx.AppendString(nil, string(inner))
	case !c.args.Exists(): // a call of Gemini's may have no arguments
		t.Replace(c.name, append(append(name, `,"args":`...), inner...))
		return
	}
	t.Replace(c.name, name)
	t.Replace(c.args, inner)
}
