package transcript

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// read finds the turns, texts and tools of a document.
func (t *Transcript) read(d chat.Dialect) {
	if d == chat.Gemini {
		if whole := t.either("generateContentRequest", "generate_content_request"); whole.Kind() == jsonx.Object { // a form of token count requests
			for key, v := range whole.Members {
				t.top(d, string(key), v)
			}
			return
		}
	}
	for i := range t.doc.Members { // their positions are known
		t.top(d, t.doc.Members[i].Key, t.doc.Value(i))
	}
}

// either returns the top-level member with one of two names.
func (t *Transcript) either(camel, snake string) jsonx.Value {
	if v := t.doc.Get(camel); v.Exists() {
		return v
	}
	return t.doc.Get(snake)
}

// top reads a top-level member.
func (t *Transcript) top(d chat.Dialect, key string, v jsonx.Value) {
	if !t.member(d, key, v) {
		t.strings(Other, v)
	}
}

// member reads a top-level member; it returns false if the member holds neither turns nor tools.
func (t *Transcript) member(d chat.Dialect, key string, v jsonx.Value) bool {
	switch key {
	case "messages":
		t.each(v, t.message)
	case "contents":
		t.each(v, t.content)
	case "system", "instructions", "systemInstruction", "system_instruction":
		t.turn(chat.RoleSystem, -1, 0, v, func(r *reader) { r.value(System, v) })
	case "input", "prompt":
		t.input(d, v)
		if d != chat.Responses && holdsTokens(v) {
			t.Tokens = key
		}
	case "prompt_embeds":
		if !v.IsNull() {
			t.Tokens = key
		}
	case "tools", "functions":
		t.tools(v)
	case "model", "stream", "tool_choice", "function_call", "toolConfig", "tool_config":
	default:
		return false
	}
	return true
}

// each reads the elements of an array of turns, or a single turn.
func (t *Transcript) each(v jsonx.Value, read func(list, index int, v jsonx.Value)) {
	if v.Kind() != jsonx.Array {
		read(-1, 0, v)
		return
	}
	t.lists = append(t.lists, v)
	list := len(t.lists) - 1
	for i, e := range v.Each {
		read(list, i, e)
	}
}

// turn adds a turn; read adds its texts.
func (t *Transcript) turn(role chat.Role, list, index int, v jsonx.Value, read func(*reader)) {
	t.Turns = append(t.Turns, Turn{Role: role, Value: v, First: len(t.Texts), list: list, index: index})
	n := len(t.Turns) - 1
	read(&reader{t: t, at: &t.Turns[n], turn: n})
	t.Turns[n].End = len(t.Texts)
}

var roles = map[string]chat.Role{
	"system": chat.RoleSystem, "developer": chat.RoleSystem, "assistant": chat.RoleAssistant, "model": chat.RoleAssistant,
	"tool": chat.RoleTool, "function": chat.RoleTool,
}

// role returns the role of a message; an unknown one counts as the user.
func (o object) role() chat.Role {
	name, _ := o.get("role").Text(nil)
	if role, ok := roles[string(name)]; ok { // the common case, without allocation
		return role
	}
	if role, ok := roles[strings.ToLower(string(name))]; ok {
		return role
	}
	return chat.RoleUser
}

// kindOf returns the kind of plain text in a message of a role.
func kindOf(role chat.Role) Kind {
	switch role {
	case chat.RoleSystem:
		return System
	case chat.RoleAssistant:
		return Assistant
	case chat.RoleTool:
		return Result
	case chat.RoleUser:
	}
	return User
}

// message reads a message of OpenAI's or Anthropic's format.
func (t *Transcript) message(list, index int, v jsonx.Value) {
	o := t.open(v)
	role := o.role()
	t.turn(role, list, index, v, func(r *reader) {
		if role == chat.RoleTool {
			r.answers(o)
		}
		r.whole(kindOf(role), v, o)
	})
	o.close()
}

// whole reads a message: its members if it is an object, else its value.
func (r *reader) whole(kind Kind, v jsonx.Value, o object) {
	if v.Kind() != jsonx.Object {
		r.value(kind, v)
		return
	}
	r.object(kind, v, o)
}

// content reads a content of Gemini's format.
func (t *Transcript) content(list, index int, v jsonx.Value) {
	o := t.open(v)
	role := o.role()
	if role == chat.RoleTool {
		role = chat.RoleUser
	}
	t.turn(role, list, index, v, func(r *reader) { r.whole(kindOf(role), v, o) })
	o.close()
}

// input reads the input of the Responses API, the prompts of a completion, or the texts of embeddings.
func (t *Transcript) input(d chat.Dialect, v jsonx.Value) {
	if d != chat.Responses || v.Kind() != jsonx.Array {
		t.turn(chat.RoleUser, -1, 0, v, func(r *reader) { r.value(User, v) })
		return
	}
	t.each(v, t.item)
}

// holdsTokens reports whether an input is a list of tokens or contains one.
func holdsTokens(v jsonx.Value) bool {
	if v.Kind() != jsonx.Array {
		return false
	}
	for _, e := range v.Each {
		if e.Kind() == jsonx.Number || holdsTokens(e) {
			return true
		}
	}
	return false
}

// item reads an item of the Responses API.
func (t *Transcript) item(list, index int, v jsonx.Value) {
	o := t.open(v)
	kind, _ := o.get("type").Str()
	role := chat.RoleAssistant
	switch {
	case kind == "" || kind == "message":
		role = o.role()
	case strings.HasSuffix(kind, "_output"):
		role = chat.RoleTool
	}
	t.turn(role, list, index, v, func(r *reader) { r.whole(kindOf(role), v, o) })
	o.close()
}

// tools reads an array of tools.
func (t *Transcript) tools(v jsonx.Value) {
	t.each(v, func(list, index int, e jsonx.Value) {
		functions := false
		for key, declared := range e.Members { // in either spelling, or both
			if k := string(key); (k == "functionDeclarations" || k == "function_declarations") && declared.Kind() == jsonx.Array {
				functions = true
				t.each(declared, t.tool)
			}
		}
		if !functions {
			t.tool(list, index, e)
		}
	})
}

// tool reads a tool.
func (t *Transcript) tool(list, index int, e jsonx.Value) {
	kind, typed := e.Get("type").Str()
	f := e
	if t.req.Dialect != chat.Anthropic && t.req.Dialect != chat.Responses && t.req.Dialect != chat.Gemini { // the type determines the kind of tool, as for providers
		for _, key := range [...]string{"function", "custom"} {
			if inner := e.Get(key); inner.Kind() == jsonx.Object && (f.At == e.At || kind == key) {
				f = inner
			}
		}
	}
	name, _ := f.Get("name").Str()
	tool := Tool{
		Name: name, Value: e, Description: f.Get("description"), Marked: e.Get("cache_control").Exists(), list: list, index: index,
		Builtin: name == "" || typed && kind != "function" && kind != "custom",
	}
	for _, key := range [...]string{"parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema"} {
		if s := f.Get(key); s.Exists() {
			tool.Schema = s
		}
	}
	t.Tools = append(t.Tools, tool)
	t.strings(Definition, e)
}

// strings adds the strings of a value outside the turns, except data URLs.
func (t *Transcript) strings(kind Kind, v jsonx.Value) {
	for s, isName := range v.Strings {
		switch {
		case isName:
		case isData(s):
			t.Media++
		default:
			t.Texts = append(t.Texts, Text{Kind: kind, Turn: -1, Value: s})
		}
	}
}

// isData reports whether a string is a data URL.
func isData(s jsonx.Value) bool {
	return strings.HasPrefix(string(s.Raw[:min(len(s.Raw), len(`"data:`))]), `"data:`)
}
