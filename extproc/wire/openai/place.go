package openai

import (
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Places inside a client's messages where the gateway has something to say.

// guide puts words before the system prompt, or makes one of them.
func (a *adjuster) guide(words string) {
	messages := a.d.Get("messages")
	first := jsonx.Value{}
	for _, m := range messages.Each {
		first = m
		break
	}
	role := first.Get("role")
	if (role.Equal("system") || role.Equal("developer")) && a.patch().Preface(first.Get("content"), words) {
		return
	}
	a.patch().Insert(messages.At+1, append(jsonx.AppendString([]byte(`{"role":"system","content":`), words), `},`...))
}

func (a *adjuster) patch() wire.Patch { return wire.Patch{Edits: a.e, Doc: a.d} }

// slash puts the switch of thinking before the last text of the user; false if there is none.
func (a *adjuster) slash(word string) bool {
	var last jsonx.Value
	for _, m := range a.d.Get("messages").Each {
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

// textOf is a content's last text.
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

// systemBytes is how many bytes the system prompt has.
func (a *adjuster) systemBytes() (n int) {
	for _, m := range a.d.Get("messages").Each {
		if role := m.Get("role"); !role.Equal("system") && !role.Equal("developer") {
			break
		}
		n += len(m.Get("content").Raw)
	}
	return n
}

// markSystem marks the last message of the system prompt.
func (a *adjuster) markSystem() bool {
	var last jsonx.Value
	for _, m := range a.d.Get("messages").Each {
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
