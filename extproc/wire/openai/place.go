package openai

import (
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

// prependSwitch puts the switch of thinking before the last text of the user; false if there is none.
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

// textOf is the last text of a content.
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

// systemBytes is the size of the system prompt in bytes.
func (a *adjuster) systemBytes() (n int) {
	for _, m := range a.doc.Get("messages").Each {
		if role := m.Get("role"); !role.Equal("system") && !role.Equal("developer") {
			break
		}
		n += len(m.Get("content").Raw)
	}
	return n
}

// markSystem puts a cache mark on the last message of the system prompt.
func (a *adjuster) markSystem() bool {
	var last jsonx.Value
	for _, m := range a.doc.Get("messages").Each {
		if role := m.Get("role"); !role.Equal("system") && !role.Equal("developer") {
			break
		}
		last = m
	}
	content := last.Get("content")
	if last.Get("cache_control").Exists() {
		return false
	}
	if a.patch().MarkText(content) {
		return true
	}
	var text jsonx.Value
	for _, part := range content.Each {
		if part.Get("type").Equal("text") {
			text = part
		}
	}
	return a.patch().MarkObject(text)
}
