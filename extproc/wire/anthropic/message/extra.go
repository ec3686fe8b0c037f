package message

import (
	"bytes"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Members of an answer that other dialects do not have, by their names in chat.Extra. Blocks of this dialect only are named by their type.
const (
	citations         = "citations" // of a text block
	container         = "container" // of the message, like the next two
	contextManagement = "context_management"
	stopDetails       = "stop_details"
	serverToolUse     = "server_tool_use" // a block, and a member of the usage
)

// Names of what no encoder can write.
const (
	caller       = "caller"           // a call by code that runs at the provider
	unnamedBlock = "content_block"    // a block whose type is not a name
	oversized    = "oversized_event"  // an event of the stream above the maximum size
	unreadable   = "unreadable_event" // an event of the stream that is not JSON
)

// member emits a member of the message that only this dialect has, unless it is null.
func (a *answer) member(name string, v jsonx.Value) {
	if !v.IsNull() {
		a.add(chat.Event{Kind: chat.Extra, ID: name, Text: v.Raw})
	}
}

// citation emits, or holds, a citation of the open text block.
func (a *answer) citation(v jsonx.Value) {
	switch {
	case v.Kind() != jsonx.Object:
	case a.translates:
		a.holdCitation(v)
	default:
		a.add(chat.Event{Kind: chat.Extra, ID: citations, Index: a.open.index, Text: v.Raw})
	}
}

// extend continues a block of this dialect only. The delta's text extends the block's member of the same name.
func (a *answer) extend(delta jsonx.Value) {
	if a.open.raw == nil {
		return
	}
	for key, m := range delta.Members {
		if t, ok := m.Text(nil); ok && string(key) != "type" {
			a.open.extended = string(key)
			a.open.extension = append(a.open.extension, t...)
		}
	}
}

// emitForeign emits a complete block of this dialect only.
func (a *answer) emitForeign(b *openBlock) {
	v := jsonx.Value{Raw: b.raw}
	kind, _ := v.Get("type").Str()
	if !isName(kind) {
		kind = unnamedBlock
	}
	if len(b.input) > 0 && jsonx.Valid(b.input) == nil {
		v = withMember(v, "input", b.input)
	}
	if len(b.extension) > 0 {
		begun, _ := v.Get(b.extended).Text(nil)
		v = withMember(v, b.extended, jsonx.AppendString(nil, slices.Concat(begun, b.extension)))
	}
	a.add(chat.Event{Kind: chat.Extra, ID: kind, Index: b.index, Text: v.Raw, Tool: ownTool(v)})
}

// ownTool returns the provider's tool that a block calls, or the id of the call whose result the block is. Tools of MCP servers, which
// choose their names, are the tool mcp.
func ownTool(b jsonx.Value) (t chat.ToolCall) {
	kind, _ := b.Get("type").Str()
	if !strings.HasSuffix(kind, "_tool_use") {
		t.ID, _ = b.Get("tool_use_id").Str()
		return t
	}
	t.ID, _ = b.Get("id").Str()
	if t.Name, _ = b.Get("name").Str(); t.Name == "" || kind == "mcp_tool_use" {
		t.Name = strings.TrimSuffix(kind, "_tool_use")
	}
	return t
}

// isName reports whether a block's type may be used as a name, which is shown to clients.
func isName(s string) bool {
	for _, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// withMember returns an object with a member set.
func withMember(object jsonx.Value, key string, value []byte) jsonx.Value {
	dst := []byte{'{'}
	found := false
	for k, m := range object.Members {
		dst = append(jsonx.AppendString(dst, k), ':')
		if string(k) == key {
			found = true
			m.Raw = value
		}
		dst = append(append(dst, m.Raw...), ',')
	}
	if found {
		return jsonx.Value{Raw: append(bytes.TrimSuffix(dst, []byte{','}), '}')}
	}
	dst = append(jsonx.AppendString(dst, key), ':')
	return jsonx.Value{Raw: append(append(dst, value...), '}')}
}
