package firewall

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/rule"
)

// Calls of tools that the provider defines: shell, patch, computer, search, code execution, tools of MCP servers. The client executes some of them; others the
// provider has already executed when they are received.

// ownCall describes a call of a provider's own tool.
type ownCall struct {
	names []string // the tool's names in rules; a list that has one of them has the tool
	inner string   // the MCP server's name of the tool, by which it can be denied but not allowed
}

// mcp is the tool of all MCP servers.
const mcp = "mcp"

// envelope are the members of an item that are not arguments of its call: metadata and results.
var envelope = []string{
	"type", "id", "call_id", "status", "name", "server_label", "server_name", "approval_request_id", "caller", "cache_control", "execution", "created_by",
	"result", "results", "output", "outputs", "error", "tools", "toolType", "thoughtSignature",
	"index", "search_results", "code_results", "browser_results",
}

// argumentMembers are the members of which one may hold all arguments of a call.
var argumentMembers = [...]string{"action", "operation", "arguments", "input", "args"}

// ownCallOf finds the call of a provider's own tool that an event is a part or the result of.
func (j *judge) ownCallOf(at block, ev *chat.Event) *call {
	switch {
	case ev.IsOwnCall():
		c := j.ownCallByID(ev.Tool.ID)
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
		return j.ownCallByID(ev.Tool.ID)
	case ev.Kind == chat.Extra && ev.Redundant: // further data about the block of a call
		return j.callAt(at)
	}
	return nil
}

// ownCallByID is the last call of a provider's own tool with an id; nil for none.
func (j *judge) ownCallByID(id string) *call {
	for _, c := range slices.Backward(j.calls) {
		if c.own != nil && c.id == id {
			return c
		}
	}
	return nil
}

// read sets a call's names and arguments from its item.
func (c *call) read(ev *chat.Event) {
	v := jsonx.Value{Raw: ev.Text}
	for _, member := range [...]string{"executableCode", "executable_code", "toolCall", "tool_call"} { // in Google's format, a part holds the item
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

// withoutEnvelope is the object of the arguments in an item.
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
		if len(b) > maxArgs {
			return b[:maxArgs]
		}
	}
	return append(b, '}')
}

// ownArgs parses the arguments of a call of a provider's own tool: the object, or JSON text, in one of argumentMembers, otherwise all members.
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

// addOfferedName adds the name under which the request offers the tool of a call, which may differ by a version or be that of several tools.
func (s *state) addOfferedName(c *call) {
	if c.own == nil {
		return
	}
	if len(c.own.names) == 0 { // it was announced, but its item was not received
		c.own.names = []string{c.name, camel(c.name)}
	}
	if name := s.ownOffered(c); name != "" {
		c.own.names = append(c.own.names, name)
	}
}

// ownOffered is the name under which the request offers the provider's tool of a call; "" if it does not offer it.
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

// matches reports whether a list matches a name of the call's tool.
func (c *call) matches(list rule.Names) bool {
	if c.own == nil {
		return list.Match(c.name)
	}
	return slices.ContainsFunc(c.own.names, list.Match) || c.own.inner != "" && list.Match(c.own.inner)
}

// objectionTo is why a rule does not allow a call's tool; "" if it does.
func (r *Rule) objectionTo(c *call) string {
	switch {
	case c.own == nil:
		return r.objection(c.name)
	case c.matches(r.Deny):
		return "denied"
	case r.Allow != nil && !slices.ContainsFunc(c.own.names, r.Allow.Match):
		return "not_allowed"
	}
	return ""
}
