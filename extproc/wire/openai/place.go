package openai

import (
	"bytes"

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
	content := first.Get("content")
	switch role := first.Get("role"); {
	case !role.Equal("system") && !role.Equal("developer"):
	case content.Kind() == jsonx.String:
		a.insert(content.At+1, jsonx.AppendEscaped(nil, words+"\n\n"))
		return
	case content.Kind() == jsonx.Array && !wire.IsEmpty(content):
		a.insert(content.At+1, append(jsonx.AppendString([]byte(`{"type":"text","text":`), words), `},`...))
		return
	}
	a.insert(messages.At+1, append(jsonx.AppendString([]byte(`{"role":"system","content":`), words), `},`...))
}

// insert puts text at a place, behind what was put there before.
func (a *adjuster) insert(at int, text []byte) { a.e.Replace(at, at, text) }

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
	a.insert(last.At+1, []byte(word))
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

const (
	marked     = `"cache_control"`
	markMember = `,` + marked + `:` + wire.Ephemeral
)

// mark marks the end of the system prompt and of the tools. The client's own marks come first, and there are no more than the most that
// a request may hold (K-24).
func (a *adjuster) mark() {
	left := wire.MaxMarks - bytes.Count(a.d.Bytes, []byte(marked))
	if left > 0 && a.markSystem() {
		left--
	}
	if left <= 0 {
		return
	}
	var last jsonx.Value
	for _, tool := range a.d.Get("tools").Each {
		last = tool
	}
	a.markObject(last)
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
	if content.Kind() == jsonx.String && len(content.Raw) > len(`""`) {
		a.insert(content.At, []byte(`[{"type":"text","text":`))
		a.insert(content.At+len(content.Raw), []byte(markMember+`}]`))
		return true
	}
	var text jsonx.Value
	for _, part := range content.Each {
		if part.Get("type").Equal("text") {
			text = part
		}
	}
	return a.markObject(text)
}

// markObject marks a part or a tool, unless it is marked.
func (a *adjuster) markObject(o jsonx.Value) bool {
	if o.Kind() != jsonx.Object || wire.IsEmpty(o) || o.Get("cache_control").Exists() {
		return false
	}
	at := o.At + len(bytes.TrimRight(o.Raw[:len(o.Raw)-1], " \t\r\n"))
	a.insert(at, []byte(markMember))
	return true
}
