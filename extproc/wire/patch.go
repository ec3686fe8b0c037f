package wire

import (
	"bytes"

	"bardo.money/gateway/internal/jsonx"
)

// Patch edits a client's own request in place. Not safe for concurrent use.
type Patch struct {
	Edits *jsonx.Edits
	Doc   *jsonx.Doc
}

const (
	marked     = `"cache_control"`
	markMember = `,` + marked + `:` + Ephemeral
)

// Insert inserts text at an offset, after earlier insertions there.
func (p Patch) Insert(at int, text []byte) { p.Edits.Replace(at, at, text) }

// PrependText inserts text before a content, which is a string or an array of blocks; false if it is neither.
func (p Patch) PrependText(content jsonx.Value, text string) bool {
	switch {
	case content.Kind() == jsonx.String:
		p.Insert(content.At+1, jsonx.AppendEscaped(nil, text+"\n\n"))
	case content.Kind() == jsonx.Array && !IsEmpty(content):
		p.Insert(content.At+1, append(jsonx.AppendString([]byte(`{"type":"text","text":`), text), `},`...))
	default:
		return false
	}
	return true
}

// MarkStable adds cache marks at the end of the system prompt, with a function that reports whether it did, and of the tools. The client's
// own marks count first, the maximum is that of a request (K-24), and a prefix shorter than minTokens, the minimum that the model's provider
// caches, gets none (D-35). prompt is the size of the system prompt in bytes.
func (p Patch) MarkStable(minTokens, prompt int, system func() bool) {
	left := MaxMarks - bytes.Count(p.Doc.Bytes, []byte(marked))
	offered := len(p.Doc.Get("tools").Raw)
	if left > 0 && mayReach(offered+prompt, minTokens) && system() {
		left--
	}
	if left <= 0 || !mayReach(offered, minTokens) {
		return
	}
	var last jsonx.Value
	for _, tool := range p.Doc.Get("tools").Each {
		last = tool
	}
	p.MarkObject(last)
}

// MarkText marks a content that is a string, which becomes a block; false if it is not one, or empty.
func (p Patch) MarkText(content jsonx.Value) bool {
	if content.Kind() != jsonx.String || IsEmpty(content) {
		return false
	}
	p.Insert(content.At, []byte(`[{"type":"text","text":`))
	p.AppendAfter(content, []byte(markMember+`}]`))
	return true
}

// MarkObject marks a block or a tool, unless it has a mark.
func (p Patch) MarkObject(o jsonx.Value) bool {
	if o.Kind() != jsonx.Object || IsEmpty(o) || o.Get("cache_control").Exists() {
		return false
	}
	p.Insert(o.At+len(bytes.TrimRight(o.Raw[:len(o.Raw)-1], " \t\r\n")), []byte(markMember))
	return true
}
