package stored

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// item is an element of an input: a message, a call, a thought. It may say only which stored item it is.
type item struct {
	ids   []string // one, unless the item is ambiguous
	types int      // how often its type was said
	of    string
	says  []string // the members that are not empty
}

// content are the members in which an item of each type has what it says. One that has none of them is looked up by its id, and so is one of a
// type that is not here, and what a tool of the provider's found.
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

// member notes a scalar member.
func (it *item) member(key []byte, v jsonx.Value) {
	switch {
	case len(key) == len("id") && same(key) == "id":
		if id, ok := v.Str(); ok && id != "" && !strings.HasPrefix(id, chat.OwnReasoning) {
			it.ids = append(it.ids, id)
		}
	case len(key) == len("type") && same(key) == "type":
		it.types++
		it.of, _ = v.Str()
	default:
		if s, ok := v.Text(nil); !ok || len(s) > 0 {
			it.has(key)
		}
	}
}

// has notes a member that is not empty.
func (it *item) has(key []byte) { it.says = append(it.says, string(key)) }

// kind says what the item wants of its id.
func (it *item) kind() Kind {
	if it.types > 1 {
		return Item
	}
	if slices.ContainsFunc(content[it.of], func(name string) bool { return slices.Contains(it.says, name) }) {
		return Copy
	}
	return Item
}
