package wire

import (
	"bytes"

	"bardo.money/gateway/internal/jsonx"
)

// Patch is what the gateway says at places inside a client's own request. Not safe for concurrent use.
type Patch struct {
	Edits *jsonx.Edits
	Doc   *jsonx.Doc
}

const (
	marked     = `"cache_control"`
	markMember = `,` + marked + `:` + Ephemeral
)

// Insert puts text at a place, behind what was put there before.
func (p Patch) Insert(at int, text []byte) { p.Edits.Replace(at, at, text) }

// Preface puts words before a content, which is a text or blocks of it; false if it is neither.
func (p Patch) Preface(content jsonx.Value, words string) bool {
	switch {
	case content.Kind() == jsonx.String:
		p.Insert(content.At+1, jsonx.AppendEscaped(nil, words+"\n\n"))
	case content.Kind() == jsonx.Array && !IsEmpty(content):
		p.Insert(content.At+1, append(jsonx.AppendString([]byte(`{"type":"text","text":`), words), `},`...))
	default:
		return false
	}
	return true
}

// MarkStable marks the end of the system prompt, by a function that reports whether it did, and of the tools. The client's own marks
// come first, there are no more than the most that a request may hold (K-24), and none where what it ends is shorter than the least
// tokens that the model's provider caches (D-35). prompt is how many bytes the system prompt has.
func (p Patch) MarkStable(least, prompt int, system func() bool) {
	left := MaxMarks - bytes.Count(p.Doc.Bytes, []byte(marked))
	offered := len(p.Doc.Get("tools").Raw)
	if left > 0 && reaches(offered+prompt, least) && system() {
		left--
	}
	if left <= 0 || !reaches(offered, least) {
		return
	}
	var last jsonx.Value
	for _, tool := range p.Doc.Get("tools").Each {
		last = tool
	}
	p.MarkObject(last)
}

// MarkText marks a content that is a text, which becomes a block; false if it is none, or says nothing.
func (p Patch) MarkText(content jsonx.Value) bool {
	if content.Kind() != jsonx.String || IsEmpty(content) {
		return false
	}
	p.Insert(content.At, []byte(`[{"type":"text","text":`))
	p.Extend(content, []byte(markMember+`}]`))
	return true
}

// MarkObject marks a block or a tool, unless it is marked.
func (p Patch) MarkObject(o jsonx.Value) bool {
	if o.Kind() != jsonx.Object || IsEmpty(o) || o.Get("cache_control").Exists() {
		return false
	}
	p.Insert(o.At+len(bytes.TrimRight(o.Raw[:len(o.Raw)-1], " \t\r\n")), []byte(markMember))
	return true
}
