package firewall

import (
	"iter"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/jsonx"
)

// Names of tools in rules. A client's own tool has the name by which it is called. A provider's own has its type, whatever name a client gives it, except for
// Anthropic's, whose names belong to their types.

// maxGroups bounds how deep groups of tools may be nested.
const maxGroups = 8

// namesOf are a tool's names in rules: one, or those of the tools of a group; none for one of Google's, see filterKeyed.
func namesOf(t *transcript.Tool, d chat.Dialect) []string {
	if inner := innerNames(t.Value, 0); len(inner) > 0 {
		return inner
	}
	if d == chat.Gemini && t.Builtin {
		return nil
	}
	return []string{toolName(t)}
}

// innerNames are the names of the tools in a group, such as a namespace of the Responses API.
func innerNames(group jsonx.Value, depth int) (names []string) {
	if depth == maxGroups {
		return []string{""} // no list of allowed tools matches it
	}
	for e := range elements(group.Get("tools")) {
		if inner := innerNames(e, depth+1); len(inner) > 0 {
			names = append(names, inner...)
			continue
		}
		name, _ := e.Get("name").Str()
		kind, _ := e.Get("type").Str()
		names = append(names, ruleName(name, kind))
	}
	return names
}

// toolName is a tool's name in rules.
func toolName(t *transcript.Tool) string {
	kind, _ := t.Value.Get("type").Str()
	if !t.Builtin {
		kind = ""
	}
	if name := ruleName(t.Name, kind); name != "" {
		return name
	}
	for key := range t.Value.Members {
		return string(key)
	}
	return ""
}

// ruleName is the name in rules of a tool with a name and a type; "" for none.
func ruleName(name, kind string) string {
	switch {
	case kind == "" || kind == "function" || kind == "custom":
		return name
	case name != "" && strings.HasPrefix(kind, name+"_2"), strings.HasPrefix(kind, "text_editor_2") && strings.HasPrefix(name, "str_replace_"):
		return name // web_search of the type web_search_20250305
	}
	return kind
}

// toolsOf is the list of tools of a request in Google's format, which may be nested in a request to count tokens.
func toolsOf(t *transcript.Transcript) jsonx.Value {
	for _, whole := range [...]string{"generateContentRequest", "generate_content_request"} {
		if v := t.Doc().Get(whole); v.Kind() == jsonx.Object {
			return v.Get("tools")
		}
	}
	return t.Doc().Get("tools")
}

// elements are the elements of an array, or a single object.
func elements(v jsonx.Value) iter.Seq[jsonx.Value] {
	return func(yield func(jsonx.Value) bool) {
		if v.Kind() == jsonx.Object {
			yield(v)
			return
		}
		for _, e := range v.Each {
			if !yield(e) {
				return
			}
		}
	}
}

func isDeclarations(member string) bool {
	return member == "functionDeclarations" || member == "function_declarations"
}

func hasDeclarations(tool jsonx.Value) bool {
	for key, m := range tool.Members {
		if isDeclarations(string(key)) && m.Kind() == jsonx.Array {
			return true
		}
	}
	return false
}

// camel and snake are the two spellings of a name in Google's format: googleSearch and google_search.
func camel(name string) string {
	var b strings.Builder
	for i, part := range strings.Split(name, "_") {
		if i > 0 && part != "" {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		b.WriteString(part)
	}
	return b.String()
}

func snake(name string) string {
	var b strings.Builder
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}
