package openai

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Edits inside a client's messages.

// prependSystem puts text before the system prompt, or adds a system prompt.
func (a *adjuster) prependSystem(text string) {
	messages := a.doc.Get("messages")
	first := jsonx.Value{}
	for _, m := range messages.Each {
		first = m
		break
	}
	role := first.Get("role")
	if (role.Equal("system") || role.Equal("developer")) && a.patch().PrependText(first.Get("content"), text) {
		return
	}
	a.patch().Insert(messages.At+1, append(jsonx.AppendString([]byte(`{"role":"system","content":`), text), `},`...))
}

func (a *adjuster) patch() wire.Patch { return wire.Patch{Edits: a.edits, Doc: a.doc} }

// prependSwitch inserts the switch of thinking before the last text of the user; false if there is none.
func (a *adjuster) prependSwitch(word string) bool {
	var last jsonx.Value
	for _, m := range a.doc.Get("messages").Each {
		if !m.Get("role").Equal("user") {
			continue
		}
		if text := textOf(m.Get("content")); text.Exists() {
			last = text
		}
	}
	if !last.Exists() {
		return false
	}
	a.patch().Insert(last.At+1, []byte(word))
	return true
}

// textOf returns the last text of content.
func textOf(content jsonx.Value) (text jsonx.Value) {
	if content.Kind() == jsonx.String {
		return content
	}
	for _, part := range content.Each {
		if t := part.Get("text"); part.Get("type").Equal("text") && t.Kind() == jsonx.String {
			text = t
		}
	}
	return text
}

// markContents sets the cache marks of a plan. A system message with the client's mark next to its content, which some providers accept,
// gets no other.
func markContents(e *jsonx.Edits, d *jsonx.Doc, plan *chat.CachePlan, minTokens int) {
	var system []jsonx.Value
	var last jsonx.Value
	opening := true
	for _, m := range d.Get("messages").Each {
		role := m.Get("role")
		opening = opening && (role.Equal("system") || role.Equal("developer"))
		last = jsonx.Value{}
		switch content := m.Get("content"); {
		case m.Get("cache_control").Exists():
		case opening:
			system = append(system, content)
		case role.Equal("user"), role.Equal("tool"):
			last = content
		}
	}
	wire.Patch{Edits: e, Doc: d}.Mark(plan, minTokens, system, last)
}
