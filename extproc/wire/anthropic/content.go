package anthropic

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// maxNesting is how deep content may hold content: a message, a tool result or document in it, and what that holds.
const maxNesting = 4

// readContent reads content that is a string or an array of blocks. Absent content is empty, as in a tool result that
// says nothing.
func readContent(v jsonx.Value, at string) ([]chat.Part, error) { return readNested(v, at, maxNesting) }

func readNested(v jsonx.Value, at string, depth int) ([]chat.Part, error) {
	switch v.Kind() {
	case jsonx.Invalid, jsonx.Null:
		return nil, nil
	case jsonx.String:
		t, _ := v.Str()
		return []chat.Part{{Kind: chat.PartText, Text: t}}, nil
	case jsonx.Array:
		if depth == 0 {
			return nil, invalid(at, "is nested too deeply")
		}
		return readBlocks(v, at, depth-1)
	case jsonx.Bool, jsonx.Number, jsonx.Object:
	}
	return nil, wrongKind(at, "a string or an array", v)
}

func readBlocks(v jsonx.Value, at string, depth int) ([]chat.Part, error) {
	var parts []chat.Part
	for i, e := range v.Each {
		b := block{v: e, at: at + "." + strconv.Itoa(i)}
		p := b.read(depth)
		if b.err != nil {
			return nil, b.err
		}
		p.CacheControl = present(e.Get("cache_control"))
		parts = append(parts, p)
	}
	return parts, nil
}

// block reads one content block, and keeps the first thing wrong with it.
type block struct {
	v   jsonx.Value
	at  string
	err error
}

// text is a member of v that must be a string; in says where in the block v is.
func (b *block) text(in string, v jsonx.Value, key string) string {
	m := v.Get(key)
	s, ok := m.Str()
	if !ok && b.err == nil {
		b.err = wrongKind(b.at+"."+in+key, "a string", m)
	}
	return s
}

func (b *block) read(depth int) chat.Part {
	switch kind := b.text("", b.v, "type"); kind {
	case "text":
		return chat.Part{Kind: chat.PartText, Text: b.text("", b.v, "text")}
	case "image":
		return b.image()
	case "document":
		return b.document(depth)
	case "tool_use":
		return b.toolUse()
	case "tool_result":
		return b.toolResult(depth)
	case "thinking":
		p := chat.Part{Kind: chat.PartThinking, Text: b.text("", b.v, "thinking")}
		p.Signature, _ = b.v.Get("signature").Str()
		return p
	case "redacted_thinking":
		return chat.Part{Kind: chat.PartRedacted, Data: b.text("", b.v, "data")}
	}
	return chat.Part{Kind: chat.PartOther, Raw: b.v.Raw}
}

func (b *block) image() chat.Part {
	source := b.v.Get("source")
	switch kind := b.text("source.", source, "type"); kind {
	case "base64":
		return chat.Part{
			Kind: chat.PartImage, Media: b.text("source.", source, "media_type"), Data: b.text("source.", source, "data"),
		}
	case "url":
		return chat.Part{Kind: chat.PartImage, URL: b.text("source.", source, "url")}
	}
	return chat.Part{Kind: chat.PartOther, Raw: b.v.Raw} // a file that only its provider holds
}

func (b *block) document(depth int) chat.Part {
	source := b.v.Get("source")
	p := chat.Part{Kind: chat.PartDocument}
	p.Name, _ = b.v.Get("title").Str()
	switch kind := b.text("source.", source, "type"); kind {
	case "base64":
		p.Media, p.Data = b.text("source.", source, "media_type"), b.text("source.", source, "data")
	case "url":
		p.URL = b.text("source.", source, "url")
	case "text":
		p.Media, p.Text = "text/plain", b.text("source.", source, "data")
	case "content":
		return b.documentOfBlocks(p, source.Get("content"), depth)
	default:
		return chat.Part{Kind: chat.PartOther, Raw: b.v.Raw}
	}
	return p
}

// documentOfBlocks reads a document that is written as content. Only text can be said elsewhere.
func (b *block) documentOfBlocks(p chat.Part, content jsonx.Value, depth int) chat.Part {
	parts, err := readNested(content, b.at+".source.content", depth)
	if err != nil {
		b.err = err
	}
	p.Media = "text/plain"
	for i := range parts {
		if parts[i].Kind != chat.PartText {
			return chat.Part{Kind: chat.PartOther, Raw: b.v.Raw}
		}
		if i > 0 {
			p.Text += "\n\n"
		}
		p.Text += parts[i].Text
	}
	return p
}

func (b *block) toolUse() chat.Part {
	call := chat.ToolCall{ID: b.text("", b.v, "id"), Name: b.text("", b.v, "name"), Args: "{}"}
	if input := b.v.Get("input"); input.Kind() == jsonx.Object {
		call.Args = string(input.Raw)
	}
	return chat.Part{Kind: chat.PartToolUse, Tool: call}
}

func (b *block) toolResult(depth int) chat.Part {
	p := chat.Part{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: b.text("", b.v, "tool_use_id")}}
	p.IsError, _ = b.v.Get("is_error").Bool()
	parts, err := readNested(b.v.Get("content"), b.at+".content", depth)
	if err != nil && b.err == nil {
		b.err = err
	}
	p.Parts = parts
	return p
}
