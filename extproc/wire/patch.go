package wire

import (
	"bytes"
	"strings"

	"bardo.money/gateway/extproc/chat"
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

// PrependText inserts text before content, which is a string or an array of blocks; false if it is neither.
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

// Mark adds the cache marks of a plan to the document, like the function Mark to a conversation. system are the contents of the system
// prompt, each a string or an array of blocks, and last is the content of the last message, if it is not the model's.
func (p Patch) Mark(plan *chat.CachePlan, minTokens int, system []jsonx.Value, last jsonx.Value) {
	left := MaxMarks - bytes.Count(p.Doc.Bytes, []byte(marked))
	if !plan.SetsMarks() || left <= 0 {
		return
	}
	offered := len(p.Doc.Get("tools").Raw)
	if p.markSystem(plan, offered, minTokens, system) {
		left--
	}
	if plan.End && left > 0 && mayReach(len(p.Doc.Bytes), minTokens) && p.markContent(last) {
		left--
	}
	if !plan.Tools || left <= 0 || !mayReach(offered, minTokens) {
		return
	}
	var tool jsonx.Value
	for _, t := range p.Doc.Get("tools").Each {
		tool = t
	}
	p.markObject(tool)
}

// markSystem marks the end of the stable part of the system prompt; false if it set no mark. before is the size in bytes of what precedes
// it.
func (p Patch) markSystem(plan *chat.CachePlan, before, minTokens int, contents []jsonx.Value) bool {
	var blocks []jsonx.Value // strings, and blocks of text
	var texts []string
	for _, c := range contents {
		if s, ok := c.Str(); ok {
			blocks, texts = append(blocks, c), append(texts, s)
			continue
		}
		for _, b := range c.Each {
			s, _ := b.Get("text").Str()
			blocks, texts = append(blocks, b), append(texts, s)
		}
	}
	i, cut := plan.Boundary(texts)
	if i >= 0 && cut > 0 && blocks[i].Kind() == jsonx.Object && !isSplittable(blocks[i]) {
		i, cut = plan.Boundary(texts[:i])
	}
	switch {
	case i < 0, !mayReach(before+stableBytes(texts, i, cut), minTokens):
		return false
	case blocks[i].Kind() == jsonx.String:
		p.splitText(blocks[i], cut)
		return true
	case cut == 0:
		return p.markObject(blocks[i])
	}
	p.splitBlock(blocks[i].Get("text"), cut)
	return true
}

// isSplittable reports whether a block consists of its type and its text, in this order.
func isSplittable(block jsonx.Value) bool {
	typed, texts := false, 0
	for key := range block.Members {
		switch string(key) {
		case "type":
			typed = texts == 0
		case "text":
			texts++
		case HintKey: // removed from the request
		default:
			return false
		}
	}
	return typed && texts == 1
}

// splitText converts content that is a string into a block with a mark. If cut is not 0, it becomes two blocks: the first cut bytes, with
// the mark, and the rest.
func (p Patch) splitText(content jsonx.Value, cut int) {
	p.Insert(content.At, []byte(`[{"type":"text","text":`))
	end := markMember + `}]`
	if cut > 0 {
		p.splitBlock(content, cut)
		end = `}]`
	}
	p.AppendAfter(content, []byte(end))
}

// splitBlock splits a block after cut bytes of its text, and marks the first part.
func (p Patch) splitBlock(text jsonx.Value, cut int) {
	p.Insert(text.TextAt(cut), []byte(`"`+markMember+`},{"type":"text","text":"`))
}

// markContent marks content: a string, which becomes a block, or the last block of an array; false if it is empty.
func (p Patch) markContent(content jsonx.Value) bool {
	if s, ok := content.Str(); ok {
		if strings.TrimSpace(s) == "" {
			return false
		}
		p.splitText(content, 0)
		return true
	}
	var last jsonx.Value
	for _, block := range content.Each {
		last = block
	}
	if s, ok := last.Get("text").Str(); ok && strings.TrimSpace(s) == "" {
		return false
	}
	return p.markObject(last)
}

// markObject marks a block or a tool, unless it has a mark.
func (p Patch) markObject(o jsonx.Value) bool {
	if o.Kind() != jsonx.Object || IsEmpty(o) || o.Get("cache_control").Exists() {
		return false
	}
	p.Insert(o.At+len(bytes.TrimRight(o.Raw[:len(o.Raw)-1], " \t\r\n")), []byte(markMember))
	return true
}
