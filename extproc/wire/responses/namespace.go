package responses

import (
	"iter"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// A namespace is a named group of tools, in the list of tools or in an item of the input: additional_tools, as Codex sends its tools, and
// tool_search_output, the tools that a search among deferred ones has loaded. Other formats have neither: their lists get the tools of all, by their own names. If two tools of one name would meet, both forms are refused there by their types.
const (
	namespaceType   = "namespace"
	additionalTools = "additional_tools"
	searchOutput    = "tool_search_output"
)

var groupTypes = jsonx.WordsOf(namespaceType, additionalTools, searchOutput)

// holdsTools reports whether an item of the input is a list of tools.
func holdsTools(item jsonx.Value) bool {
	kind := item.Get("type")
	return kind.Equal(additionalTools) || kind.Equal(searchOutput)
}

// grouped yields the functions and custom tools of a request, each with its namespace; "" for those without one.
func grouped(d *jsonx.Doc) iter.Seq2[jsonx.Value, string] {
	return func(yield func(jsonx.Value, string) bool) {
		list := func(tools jsonx.Value) bool {
			for _, t := range tools.Each {
				if !t.Get("type").Equal(namespaceType) {
					if !yield(t, "") {
						return false
					}
					continue
				}
				name, _ := t.Get("name").Str()
				for _, inner := range t.Get("tools").Each {
					if !yield(inner, name) {
						return false
					}
				}
			}
			return true
		}
		if !list(d.Get("tools")) {
			return
		}
		for _, item := range d.Get("input").Each {
			if holdsTools(item) && !list(item.Get("tools")) {
				return
			}
		}
	}
}

// namespaces returns the namespace of each tool that has one, by the tool's name. ok is false if a name has two.
func namespaces(d *jsonx.Doc) (of map[string]string, ok bool) {
	if !d.MayHoldValue(&groupTypes) {
		return nil, true
	}
	all := map[string]string{}
	for t, namespace := range grouped(d) {
		name, _ := t.Get("name").Str()
		if before, known := all[name]; known && before != namespace && name != "" {
			return nil, false
		}
		all[name] = namespace
	}
	of = map[string]string{}
	for name, namespace := range all {
		if namespace != "" {
			of[name] = namespace
		}
	}
	return of, true
}

// readNamespace reads the tools of a namespace, whose description they share.
func readNamespace(c *chat.Conversation, v jsonx.Value, at string) error {
	wire.UnmapUnknown(c, v, "type", "name", "description", "tools")
	if _, err := readRequired(at+".name", v.Get("name")); err != nil {
		return err
	}
	about, err := wire.ReadOptional(at+".description", v.Get("description"))
	if err != nil {
		return err
	}
	first := len(c.Tools)
	if err := readGroup(c, v, at); err != nil {
		return err
	}
	for i := range c.Tools[first:] {
		if t := &c.Tools[first+i]; t.Raw == nil && about != "" {
			t.Description = strings.TrimSuffix(about+"\n\n"+t.Description, "\n\n")
		}
	}
	return nil
}

// readGroup reads the list of tools of a namespace or an item.
func readGroup(c *chat.Conversation, v jsonx.Value, at string) error {
	list := v.Get("tools")
	if list.Kind() != jsonx.Array {
		return wire.WrongKind(at+".tools", "an array", list)
	}
	return readToolList(c, list, at+".tools", holdsTools(v))
}

// lastOfEach keeps the last function of each name: clients send their tools again.
func lastOfEach(tools []chat.Tool) (out []chat.Tool) {
	last := map[string]int{}
	for i := range tools {
		if tools[i].Raw == nil {
			last[tools[i].Name] = i
		}
	}
	for i := range tools {
		if tools[i].Raw != nil || last[tools[i].Name] == i {
			out = append(out, tools[i])
		}
	}
	return out
}
