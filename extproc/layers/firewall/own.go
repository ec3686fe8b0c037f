package firewall

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/rule"
)

// Calls of tools that the provider defines: a shell, a patch, a computer, a search, code that it runs, the tools of MCP servers. Some the client carries out, as it
// does its own; others the provider has carried out by the time that they are seen.

// ownCall is what is known of a call of the provider's own tool.
type ownCall struct {
	names []string // by which rules know the tool; one of them is enough for either list
	inner string   // the name that an MCP server gives its tool: it may be denied by this one, but is not allowed by it
}

// mcp is the tool of all MCP servers.
const mcp = "mcp"

// envelope are the members of an item that are no arguments of its call: what it is, and what came of it.
var envelope = []string{
	"type", "id", "call_id", "status", "name", "server_label", "server_name", "approval_request_id", "caller", "cache_control", "execution", "created_by",
	"result", "results", "output", "outputs", "error", "tools", "toolType", "thoughtSignature",
	"index", "search_results", "code_results", "browser_results",
}

// argumentMembers are the members of which one holds the arguments of a call.
var argumentMembers = [...]string{"action", "operation", "arguments", "input", "args"}

// followOwn finds the call that an event of one format only is a part of, or the result of.
func (j *judge) followOwn(at block, ev *chat.Event) *call {
	switch {
	case ev.IsOwnCall():
		c := j.own(ev.Tool.ID)
		if c == nil || c.judged {
			c = j.begin(at, ev)
			c.own = &ownCall{}
		}
		if ev.Kind == chat.Extra {
			c.block = at
			c.read(ev)
		}
		return c
	case ev.Kind == chat.Extra && ev.Tool.ID != "":
		return j.own(ev.Tool.ID)
	case ev.Kind == chat.Extra && ev.Redundant: // what a provider says of the block of a call beside it
		return j.at(at)
	}
	return nil
}

// own is the last call of a provider's own tool with an ID; nil for none.
func (j *judge) own(id string) *call {
	for _, c := range slices.Backward(j.calls) {
		if c.own != nil && c.id == id {
			return c
		}
	}
	return nil
}

// read takes a call's names and arguments from its item.
func (c *call) read(ev *chat.Event) {
	v := jsonx.Value{Raw: ev.Text}
	for _, member := range [...]string{"executableCode", "executable_code", "toolCall", "tool_call"} { // Google's parts hold the item
		if inner := v.Get(member); inner.Kind() == jsonx.Object {
			v = inner
		}
	}
	c.id, c.name = ev.Tool.ID, ev.Tool.Name
	c.own.names = []string{c.name, camel(c.name)}
	if c.name == mcp {
		c.own.inner, _ = v.Get("name").Str()
		server, _ := v.Get("server_label").Str()
		if server == "" {
			server, _ = v.Get("server_name").Str()
		}
		c.name = mcp + "/" + server + "/" + c.own.inner
		c.own.names = append(c.own.names, c.name)
	}
	c.args = withoutEnvelope(v)
}

// withoutEnvelope is an item with its arguments alone.
func withoutEnvelope(item jsonx.Value) []byte {
	b := []byte{'{'}
	for key, m := range item.Members {
		if slices.Contains(envelope, string(key)) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(jsonx.AppendString(b, key), ':'), m.Raw...)
		if len(b) > maxKept {
			return b[:maxKept]
		}
	}
	return append(b, '}')
}

// ownArgs reads the arguments of a call of the provider's own tool: the object, or its JSON, that one member holds, else all members that are left.
func ownArgs(item []byte) (map[string]any, error) {
	all, err := rule.Args(item)
	if err != nil {
		return nil, err
	}
	for _, member := range argumentMembers {
		switch m := all[member].(type) {
		case map[string]any:
			return m, nil
		case string:
			return rule.Args([]byte(m))
		}
	}
	return all, nil
}

// nameOwn adds the names under which the request offers the tool of a call: its type may have a version, or be that of several tools.
func (s *state) nameOwn(c *call) {
	if c.own == nil {
		return
	}
	if len(c.own.names) == 0 { // it was announced, and did not come
		c.own.names = []string{c.name, camel(c.name)}
	}
	if name := s.ownOffered(c); name != "" {
		c.own.names = append(c.own.names, name)
	}
}

// ownOffered is the name of the provider's tool that the request offers and a call belongs to; "" if there is none.
func (s *state) ownOffered(c *call) string {
	base, _, _ := strings.Cut(c.name, "/")
	for _, t := range s.tools() {
		if name := snake(t.name); t.own && (strings.HasPrefix(name, base) || strings.HasPrefix(base, name) || strings.HasSuffix(base, "_"+name)) {
			return t.name
		}
	}
	for _, m := range memberTools {
		if m.tool == base && s.request.Member(m.member).Exists() {
			return m.tool
		}
	}
	return ""
}

// named reports whether a list has a name of the call's tool.
func (c *call) named(list rule.Names) bool {
	if c.own == nil {
		return list.Match(c.name)
	}
	return slices.ContainsFunc(c.own.names, list.Match) || c.own.inner != "" && list.Match(c.own.inner)
}

// objectionTo is why a rule does not let a tool be called; "" if it does.
func (r *Rule) objectionTo(c *call) string {
	switch {
	case c.own == nil:
		return r.objection(c.name)
	case c.named(r.Deny):
		return "denied"
	case r.Allow != nil && !slices.ContainsFunc(c.own.names, r.Allow.Match):
		return "not_allowed"
	}
	return ""
}
