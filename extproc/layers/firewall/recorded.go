package firewall

import (
	"slices"
	"strings"

	"bardo.money/gateway/internal/rule"
)

// otherTool is what a record says of a tool that no rule names.
const otherTool = "other"

// vocabulary are names of tools that providers define, as the gateway knows them. A version may follow after an underscore.
var vocabulary = []string{
	webSearch, "web_search_preview", "web_fetch", "url_context", "google_search", "google_search_retrieval", "google_maps", "file_search", "code_interpreter", "code_execution",
	"bash_code_execution", "text_editor_code_execution", "str_replace_based_edit_tool", "str_replace_editor", "text_editor", "bash", "memory", "computer", "computer_use",
	"computer_use_preview", "image_generation", "local_shell", "shell", "apply_patch", "tool_search", "tool_search_tool_regex", "tool_search_tool_bm25", mcp, "mcp_toolset", "plugins",
	"search", "python", "visit", "browser_search",
}

// recorded is what a record says of a tool that has some names (D-61): the name, where a rule spells it or a provider defines it; else the pattern of a rule that it
// matches. Any other name is the client's content: "other".
func (s *state) recorded(names ...string) string {
	pattern := ""
	for _, name := range names {
		if s.spelled(name) || defined(name) {
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

// spelled reports whether a rule of the request spells a name out.
func (s *state) spelled(name string) bool {
	return slices.ContainsFunc(s.rules, func(r *Rule) bool {
		for _, list := range r.lists() {
			if slices.Contains(list, name) {
				return true
			}
		}
		return false
	})
}

// defined reports whether a name is one of the vocabulary, in either spelling, with or without a version of digits.
func defined(name string) bool {
	name = strings.TrimRight(snake(name), "0123456789_")
	return slices.Contains(vocabulary, name)
}
