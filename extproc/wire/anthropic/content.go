package anthropic

import (
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// maxNesting is the maximum nesting of content: a message, a tool result or document in it, and its content.
const maxNesting = 4

// readContent reads content, a string or an array of blocks. Absent content and empty text become no parts: this API refuses empty text in
// an array, and others treat it as a message.
func readContent(c *chat.Conversation, v jsonx.Value, at string) ([]chat.Part, error) {
	return readNested(c, v, at, maxNesting)
}

func readNested(c *chat.Conversation, v jsonx.Value, at string, depth int) ([]chat.Part, error) {
	switch v.Kind() {
	case jsonx.Invalid, jsonx.Null:
		return nil, nil
	case jsonx.String:
		t, _ := v.Str()
		if t == "" {
			return nil, nil
		}
		return []chat.Part{{Kind: chat.PartText, Text: t}}, nil
	case jsonx.Array:
		if depth == 0 {
			return nil, invalid(at, "is nested too deeply")
		}
		return readBlocks(c, v, at, depth-1)
	case jsonx.Bool, jsonx.Number, jsonx.Object:
	}
	return nil, wire.WrongKind(at, "a string or an array", v)
}

func readBlocks(c *chat.Conversation, v jsonx.Value, at string, depth int) ([]chat.Part, error) {
	var parts []chat.Part
	for i, e := range v.Each {
		b := block{c: c, v: e, at: at + "." + strconv.Itoa(i)}
		p := wire.PartAt(b.read(depth), b.at)
		if b.err != nil {
			return nil, b.err
		}
		p.CacheControl = wire.Present(e.Get("cache_control"))
		switch empty := p.Kind == chat.PartText && p.Text == ""; {
		case !empty:
			parts = append(parts, p)
		case p.CacheControl == nil:
		case len(parts) > 0: // the mark keeps its position
			parts[len(parts)-1].CacheControl = p.CacheControl
		default:
			wire.Unmap(c, "cache_control")
		}
	}
	return parts, nil
}

// block reads one content block. err is the first error.
type block struct {
	c   *chat.Conversation
	v   jsonx.Value
	at  string
	err error
}

// text returns a member of v that must be a string; in is the path from the block to v.
func (b *block) text(in string, v jsonx.Value, key string) string {
	m := v.Get(key)
	s, ok := m.Str()
	if !ok && b.err == nil {
		b.err = wire.WrongKind(b.at+"."+in+key, "a string", m)
	}
	return s
}

// optional returns an optional member of the block that must be a string.
func (b *block) optional(key string) string {
	if b.v.Get(key).IsNull() {
		return ""
	}
	return b.text("", b.v, key)
}

// unmapOthers unmaps the block's members other than keys.
func (b *block) unmapOthers(keys ...string) { wire.UnmapUnknown(b.c, b.v, keys...) }

func (b *block) read(depth int) chat.Part {
	kind := b.text("", b.v, "type")
	switch kind {
	case "text":
		b.unmapOthers("type", "cache_control", "text")
		return chat.Part{Kind: chat.PartText, Text: b.text("", b.v, "text")}
	case "image":
		b.unmapOthers("type", "cache_control", "source")
		return b.image()
	case "document":
		return b.document(depth)
	case "search_result":
		return b.searchResult()
	case "tool_use":
		return b.toolUse()
	case "tool_result":
		b.unmapOthers("type", "cache_control", "tool_use_id", "content", "is_error")
		return b.toolResult(depth)
	case "thinking":
		b.unmapOthers("type", "cache_control", "thinking", "signature")
		p := chat.Part{Kind: chat.PartThinking, Text: b.text("", b.v, "thinking")}
		p.Signature = b.optional("signature")
		return p
	case "tool_reference": // the result of a client's own tool search; other formats have all tools, so the name suffices
		b.unmapOthers("type", "cache_control", "tool_name")
		return chat.Part{Kind: chat.PartText, Text: b.text("", b.v, "tool_name")}
	case "redacted_thinking":
		b.unmapOthers("type", "cache_control", "data")
		return chat.Part{Kind: chat.PartRedacted, Data: b.text("", b.v, "data")}
	}
	return b.other(kind)
}

// traces are the blocks that a provider's own tools leave in an assistant's turn and that mean nothing to another provider: calls, and
// results that only their provider can read. Any other block of this format only is content.
var traces = map[string]bool{
	"server_tool_use": true, "mcp_tool_use": true, "web_search_tool_result": true, "tool_search_tool_result": true,
}

// other returns a block of this format only. name is its name in errors and among degraded names.
func (b *block) other(name string) chat.Part {
	return chat.Part{Kind: chat.PartOther, Name: name, Raw: b.v.Raw, Trace: traces[name]}
}

// stored returns a block whose bytes are stored at its provider; media is their type as far as it is known.
func (b *block) stored(source jsonx.Value, kind, media string) chat.Part {
	id := source.Get("file_id")
	if !id.Exists() {
		return b.other(kind)
	}
	return chat.Part{Kind: chat.PartFile, File: b.text("source.", source, "file_id"), Media: media, Name: b.optional("title")}
}

// source returns the member that holds or locates the block's bytes.
func (b *block) source() jsonx.Value {
	source := b.v.Get("source")
	wire.UnmapUnknown(b.c, source, "type", "media_type", "data", "url", "content", "file_id")
	return source
}

func (b *block) image() chat.Part {
	source := b.source()
	switch kind := b.text("source.", source, "type"); kind {
	case "base64":
		return chat.Part{
			Kind: chat.PartImage, Media: b.text("source.", source, "media_type"), Data: b.text("source.", source, "data"),
		}
	case "url":
		return chat.Part{Kind: chat.PartImage, URL: b.text("source.", source, "url")}
	}
	return b.stored(source, "image", "image/*")
}

func (b *block) document(depth int) chat.Part {
	b.unmapOthers("type", "cache_control", "source", "title", "context", "citations")
	if on, _ := b.v.Get("citations").Get("enabled").Bool(); on {
		wire.Unmap(b.c, "citations")
	}
	source := b.source()
	p := chat.Part{Kind: chat.PartDocument}
	p.Name, p.Context = b.optional("title"), b.optional("context")
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
		return b.stored(source, "document", "")
	}
	return p
}

// documentOfBlocks reads a document that consists of blocks. Other formats have text documents only.
func (b *block) documentOfBlocks(p chat.Part, content jsonx.Value, depth int) chat.Part {
	parts, err := readNested(b.c, content, b.at+".source.content", depth)
	if err != nil {
		b.err = err
	}
	p.Media = "text/plain"
	for i := range parts {
		if parts[i].Kind != chat.PartText {
			return b.other("document")
		}
	}
	p.Text = joined(parts)
	return p
}

// searchResult reads a result of the client's own search. Other formats have documents, which cannot be cited by position.
func (b *block) searchResult() chat.Part {
	b.unmapOthers("type", "cache_control", "source", "title", "content", "citations")
	wire.Unmap(b.c, "search_result")
	parts, err := readNested(b.c, b.v.Get("content"), b.at+".content", 1)
	if err != nil {
		b.err = err
	}
	p := chat.Part{Kind: chat.PartDocument, Media: "text/plain", Text: joined(parts)}
	p.Name, p.Context = b.optional("title"), b.optional("source")
	return p
}

func joined(parts []chat.Part) string {
	var texts []string
	for i := range parts {
		texts = append(texts, parts[i].Text)
	}
	return strings.Join(texts, "\n\n")
}

func (b *block) toolUse() chat.Part {
	b.unmapOthers("type", "cache_control", "id", "name", "input", "caller")
	if caller := b.v.Get("caller"); !caller.IsNull() && !caller.Get("type").Equal("direct") {
		wire.Unmap(b.c, "caller")
	}
	call := chat.ToolCall{ID: b.text("", b.v, "id"), Name: b.text("", b.v, "name"), Args: "{}"}
	switch input := b.v.Get("input"); {
	case input.Kind() == jsonx.Object:
		call.Args = string(input.Raw)
	case !input.IsNull() && b.err == nil:
		b.err = wire.WrongKind(b.at+".input", "an object", input)
	}
	return chat.Part{Kind: chat.PartToolUse, Tool: call}
}

func (b *block) toolResult(depth int) chat.Part {
	p := chat.Part{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: b.text("", b.v, "tool_use_id")}}
	var ok bool
	if failed := b.v.Get("is_error"); !failed.IsNull() {
		if p.IsError, ok = failed.Bool(); !ok && b.err == nil {
			b.err = wire.WrongKind(b.at+".is_error", "a boolean", failed)
		}
	}
	parts, err := readNested(b.c, b.v.Get("content"), b.at+".content", depth)
	if err != nil && b.err == nil {
		b.err = err
	}
	p.Parts = parts
	return p
}
