package anthropic

import (
	"bytes"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Members of an answer that other dialects do not have, as chat.Extra names them. Blocks that only this dialect knows are
// named by their type.
const (
	citations         = "citations" // of a text block
	container         = "container" // of the message, as the next two
	contextManagement = "context_management"
	stopDetails       = "stop_details"
	serverToolUse     = "server_tool_use" // a block, and in the usage
)

// Names of what no encoder can write.
const (
	caller       = "caller"           // a tool's call by code that runs at the provider
	unnamedBlock = "content_block"    // a block whose type is no word
	oversized    = "oversized_event"  // an event of the stream that was too long to keep
	unreadable   = "unreadable_event" // an event of the stream that is not JSON
)

// member tells a member of the message that only this dialect has, unless it is null.
func (a *answer) member(name string, v jsonx.Value) {
	if !v.IsNull() {
		a.add(chat.Event{Kind: chat.Extra, ID: name, Text: v.Raw})
	}
}

// cite tells a citation of the open text block.
func (a *answer) cite(v jsonx.Value) {
	switch {
	case v.Kind() != jsonx.Object:
	case a.crosses:
		a.note(v)
	default:
		a.add(chat.Event{Kind: chat.Extra, ID: citations, Index: a.open.index, Text: v.Raw})
	}
}

// extend continues a block that only this dialect knows by a delta that does: its text is a piece of the member of the
// same name.
func (a *answer) extend(delta jsonx.Value) {
	if a.open.raw == nil {
		return
	}
	for key, m := range delta.Members {
		if t, ok := m.Text(nil); ok && string(key) != "type" {
			a.open.key = string(key)
			a.open.more = append(a.open.more, t...)
		}
	}
}

// foreign tells a block that only this dialect knows, whole.
func (a *answer) foreign(b *openBlock) {
	v := jsonx.Value{Raw: b.raw}
	kind, _ := v.Get("type").Str()
	if !isWord(kind) {
		kind = unnamedBlock
	}
	if len(b.input) > 0 && jsonx.Valid(b.input) == nil {
		v = with(v, "input", b.input)
	}
	if len(b.more) > 0 {
		begun, _ := v.Get(b.key).Text(nil)
		v = with(v, b.key, jsonx.AppendString(nil, slices.Concat(begun, b.more)))
	}
	a.add(chat.Event{Kind: chat.Extra, ID: kind, Index: b.index, Text: v.Raw})
}

// isWord reports whether a block's type is fit to be a name: the provider's own words go no further.
func isWord(s string) bool {
	for _, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// with is an object with a member set.
func with(object jsonx.Value, key string, value []byte) jsonx.Value {
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
