package stored

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// item is an element of an input in the Responses format: a message, a call, reasoning. It may be only a reference to a stored item.
type item struct {
	ids      []string // more than one if the item is ambiguous
	types    int      // number of its type members
	typeName string
	nonEmpty []string // names of the members with a value
}

// content are the members with the content of an item, by type. An item with none of them, or of any other type, is looked up by its id.
var content = map[string][]string{
	"":                        {"content"},
	"message":                 {"content"},
	"function_call":           {"arguments"},
	"custom_tool_call":        {"input"},
	"reasoning":               {"encrypted_content", "content"},
	"compaction":              {"encrypted_content"},
	"function_call_output":    {"output"},
	"custom_tool_call_output": {"output"},
	"computer_call_output":    {"output"},
	"local_shell_call_output": {"output"},
	"shell_call_output":       {"output"},
	"apply_patch_call_output": {"status"},
	"computer_call":           {"action", "actions"},
	"local_shell_call":        {"action"},
	"shell_call":              {"action"},
	"apply_patch_call":        {"operation"},
	"mcp_list_tools":          {"tools"},
	"mcp_call":                {"output"},
	"mcp_approval_request":    {"arguments"},
	"image_generation_call":   {"result"},
	"file_search_call":        {"results"},
	"tool_search_call":        {"arguments"},
	"tool_search_output":      {"tools"},
}

// member records a scalar member.
func (it *item) member(key []byte, v jsonx.Value) {
	switch {
	case len(key) == len("id") && foldName(key) == "id":
		if id, ok := v.Str(); ok && id != "" && !strings.HasPrefix(id, chat.OwnReasoning) && !strings.HasPrefix(id, chat.OwnPicture) {
			it.ids = append(it.ids, id)
		}
	case len(key) == len("type") && foldName(key) == "type":
		it.types++
		it.typeName, _ = v.Str()
	default:
		if s, ok := v.Text(nil); !ok || len(s) > 0 {
			it.has(key)
		}
	}
}

// has records a member with a value.
func (it *item) has(key []byte) { it.nonEmpty = append(it.nonEmpty, string(key)) }

// kind returns how the item's id is used.
func (it *item) kind() Kind {
	if it.types > 1 {
		return Item
	}
	if slices.ContainsFunc(content[it.typeName], func(name string) bool { return slices.Contains(it.nonEmpty, name) }) {
		return Copy
	}
	return Item
}
