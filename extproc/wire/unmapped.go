package wire

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Unmap adds a member that the canonical form cannot carry to the conversation's list, once.
func Unmap(c *chat.Conversation, name string) {
	c.Unmapped = AppendDegraded(c.Unmapped, name)
}

// UnknownMember replaces the name of an undocumented member in records and events, because the client chose the name, which may be content.
const UnknownMember = "unknown_member"

// NoteUndocumented records which of a conversation's unmapped members its format does not document. words are further names in the list that are
// not content.
func NoteUndocumented(c *chat.Conversation, documented *jsonx.Form, others ...string) {
	for _, name := range c.Unmapped {
		if name != MoreDegraded && !documented.Knows(name) && !slices.Contains(others, name) {
			c.Strange = append(c.Strange, name)
		}
	}
}

// RedactNames replaces undocumented members in a list of degraded names by UnknownMember, for readers other than the client.
func RedactNames(names []string, undocumented ...[]string) (out []string) {
	for _, name := range names {
		if slices.ContainsFunc(undocumented, func(s []string) bool { return slices.Contains(s, name) }) {
			name = UnknownMember
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// UnmapUnknown unmaps the members of an object that its reader does not know, by their keys. Empty and false ones are skipped, because SDKs
// add them by default.
func UnmapUnknown(c *chat.Conversation, object jsonx.Value, known ...string) {
	for key, v := range object.Members {
		on, isBool := v.Bool()
		if IsEmpty(v) || isBool && !on || string(key) == HintKey || slices.Contains(known, string(key)) {
			continue
		}
		Unmap(c, string(key))
	}
}

// IsEmpty reports whether a value is absent, null, "", [] or {}.
func IsEmpty(v jsonx.Value) bool {
	switch v.Kind() {
	case jsonx.Invalid, jsonx.Null:
		return true
	case jsonx.String:
		return len(v.Raw) == len(`""`)
	case jsonx.Array:
		for range v.Each {
			return false
		}
		return true
	case jsonx.Object:
		for range v.Members {
			return false
		}
		return true
	case jsonx.Bool, jsonx.Number:
	}
	return false
}
