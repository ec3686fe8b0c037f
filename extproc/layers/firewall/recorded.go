package firewall

import (
	"slices"
	"strings"

	"bardo.money/gateway/internal/rule"
)

// otherTool stands in records for a tool that no rule matches.
const otherTool = "other"

// providerTools are the names of tools that providers define. A version may follow after an underscore.
var providerTools = []string{
	webSearch, "web_search_preview", "web_fetch", "url_context", "google_search", "google_search_retrieval", "google_maps", "file_search", "code_interpreter", "code_execution",
	"bash_code_execution", "text_editor_code_execution", "str_replace_based_edit_tool", "str_replace_editor", "text_editor", "bash", "memory", "computer", "computer_use",
	"computer_use_preview", "image_generation", "local_shell", "shell", "apply_patch", "tool_search", "tool_search_tool_regex", "tool_search_tool_bm25", mcp, "mcp_toolset", "plugins",
	"search", "python", "visit", "browser_search",
}

// recordedName is the name in records of a tool with some names (D-61): a name that a rule spells out or a provider defines, or the pattern of a rule that it
// matches. Any other name is the client's content, and is recorded as "other".
func (s *state) recordedName(names ...string) string {
	pattern := ""
	for _, name := range names {
		if s.isSpelledOut(name) || isProviderTool(name) {
			return name
		}
		for _, r := range s.rules {
			for _, list := range r.lists() {
				if p := list.First(name); p != "" && p != "*" && pattern == "" {
					pattern = p
				}
			}
		}
	}
	if pattern != "" {
		return pattern
	}
	return otherTool
}

// lists are the rule's lists of tools.
func (r *Rule) lists() [3]rule.Names { return [...]rule.Names{r.Deny, r.Allow, r.Tools} }

// isSpelledOut reports whether a rule of the request spells a name out.
func (s *state) isSpelledOut(name string) bool {
	return slices.ContainsFunc(s.rules, func(r *Rule) bool {
		for _, list := range r.lists() {
			if slices.Contains(list, name) {
				return true
			}
		}
		return false
	})
}

// isProviderTool reports whether a name is one of providerTools, in either spelling, with or without a version of digits.
func isProviderTool(name string) bool {
	name = strings.TrimRight(snake(name), "0123456789_")
	return slices.Contains(providerTools, name)
}
