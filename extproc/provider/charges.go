package provider

import (
	"fmt"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Charging is implemented by the adapters of providers that charge for more than tokens (D-87): all except the demo provider's.
type Charging interface {
	// Charges lists what costs more than its tokens in a request of format d to the candidate to.
	Charges(to *policy.Resolution, at Endpoint, d chat.Dialect) Charges
}

// Basis selects the catalog price of a part of a request that costs more than its tokens. The zero value, Unpriced, has no price.
type Basis uint8

// The bases.
const (
	Unpriced Basis = iota
	PerSearch
	PerTier
	NoCharge // no charge beyond the tokens
)

// Charges lists how a request in one format can cost more than its tokens: by a member, or by a tool that the provider runs. A member that
// is not listed costs nothing; a tool that is not listed has no price. Read-only.
type Charges struct {
	Members []ChargedMember
	Tools   []ChargedTool
	Models  []string // suffixes of model names that cost more
	Keyed   bool     // tools are identified by their member, in either of Google's spellings, instead of by type
	keys    jsonx.Words
}

// ChargedMember is a member whose values change the cost of a request. Null, false, "" and [] never do.
type ChargedMember struct {
	Path []string // member names from the top level
	Free []string // values without a charge, case-insensitive; a list is free if all its elements are
	By   Basis
}

// ChargedTool is a type of tool. A type that ends with * is a prefix.
type ChargedTool struct {
	Type string
	By   Basis
}

// Extra is a part of a request that costs more than its tokens.
type Extra struct {
	At      string // the member in the client's spelling: tools[1].type
	Value   string // its value, shortened
	By      Basis
	MaxUses int64 // limit of uses in the request; 0: none
}

// NewCharges returns a table of tools and members.
func NewCharges(tools []ChargedTool, members ...ChargedMember) Charges {
	c := Charges{Tools: tools}
	return c.With(members...)
}

// With returns the table with more members.
func (c *Charges) With(members ...ChargedMember) Charges {
	more := *c
	more.Members = slices.Concat(c.Members, members)
	var names []string
	for i := range more.Members {
		first := more.Members[i].Path[0]
		names = append(names, first, snake(first))
	}
	more.keys = jsonx.WordsOf(names...)
	return more
}

// Extras lists the parts of a request that cost more than their tokens, in table order.
func (c *Charges) Extras(req *chat.Request) (list []Extra) {
	for _, end := range c.Models {
		if strings.HasSuffix(req.Model, end) || strings.HasPrefix(end, "@") && strings.Contains(req.Model, end) {
			list = append(list, Extra{At: "model", Value: end})
		}
	}
	if req.Doc.Stats.Keys.Meets(&c.keys) {
		for i := range c.Members {
			if e, ok := c.Members[i].in(&req.Doc); ok {
				list = append(list, e)
			}
		}
	}
	list = c.tools(list, req.Doc.Get("tools"), "tools")
	for i, item := range req.Doc.Get("input").Each { // tools that a tool search found, in Responses
		if !item.Get("type").Equal("mcp_list_tools") {
			list = c.tools(list, item.Get("tools"), fmt.Sprintf("input[%d].tools", i))
		}
	}
	return list
}

// in finds the member in a request; ok is false if its value has no charge.
func (m *ChargedMember) in(doc *jsonx.Doc) (e Extra, ok bool) {
	v, at := jsonx.Value{}, ""
	for i, name := range m.Path {
		for _, spelled := range [...]string{name, snake(name)} {
			next := v.Get(spelled)
			if i == 0 {
				next = doc.Get(spelled)
			}
			if next.Exists() {
				v, name = next, spelled
				break
			}
			if spelled == snake(name) {
				return Extra{}, false
			}
		}
		if at != "" {
			at += "."
		}
		at += name
	}
	return Extra{At: at, Value: shorten(v), By: m.By}, !m.isFree(v)
}

// isFree reports whether a value has no charge.
func (m *ChargedMember) isFree(v jsonx.Value) bool {
	switch v.Kind() { //nolint:exhaustive // the rest are values
	case jsonx.Invalid, jsonx.Null:
		return true
	case jsonx.Bool:
		yes, _ := v.Bool()
		return !yes
	case jsonx.String:
		s, ok := v.Str()
		return ok && (s == "" || m.By == PerTier && policy.IsUsualTier(s) || m.isFreeValue(s))
	case jsonx.Array:
		for _, e := range v.Each {
			if s, ok := e.Str(); !ok || !m.isFreeValue(s) {
				return false
			}
		}
		return true
	}
	return false
}

func (m *ChargedMember) isFreeValue(s string) bool {
	return slices.ContainsFunc(m.Free, func(u string) bool { return strings.EqualFold(u, s) })
}

// maxToolDepth is the maximum nesting of groups of tools.
const maxToolDepth = 8

// tools appends the charged tools of a list. A list of one may be the object itself.
func (c *Charges) tools(list []Extra, v jsonx.Value, at string) []Extra {
	if v.Kind() == jsonx.Object {
		return c.tool(list, v, at)
	}
	for i, t := range v.Each {
		list = c.tool(list, t, fmt.Sprintf("%s[%d]", at, i))
	}
	return list
}

func (c *Charges) tool(list []Extra, t jsonx.Value, at string) []Extra {
	if c.Keyed {
		for name, m := range t.Members {
			if key := string(name); !m.IsNull() {
				list = c.add(list, key, at+"."+key, m)
			}
		}
		return list
	}
	kind := t.Get("type")
	name, ok := kind.Str()
	if kind.IsNull() {
		name, ok = "", true
	}
	if !ok {
		name = shorten(kind)
	}
	list = c.add(list, name, at+".type", t)
	if inner := t.Get("tools"); inner.Exists() && strings.Count(at, ".tools") < maxToolDepth {
		list = c.tools(list, inner, at+".tools")
	}
	return list
}

// add appends a tool unless it has no charge beyond its tokens.
func (c *Charges) add(list []Extra, kind, at string, t jsonx.Value) []Extra {
	by := c.basis(kind)
	if kind == "shell" && by == NoCharge && !local(t.Get("environment")) {
		by = Unpriced
	}
	if by == NoCharge {
		return list
	}
	maxUses, _ := t.Get("max_uses").Int()
	return append(list, Extra{At: at, Value: kind, By: by, MaxUses: max(maxUses, 0)})
}

// local reports whether a shell runs at the client.
func local(environment jsonx.Value) bool {
	return environment.IsNull() || environment.Get("type").Equal("local")
}

// basis returns the basis of a type of tool.
func (c *Charges) basis(kind string) Basis {
	for i := range c.Tools {
		t := &c.Tools[i]
		begin, open := strings.CutSuffix(t.Type, "*")
		if kind == t.Type || open && strings.HasPrefix(kind, begin) || c.Keyed && kind == snake(t.Type) {
			return t.By
		}
	}
	return Unpriced
}

// maxShown is the maximum length of a value in an error.
const maxShown = 40

// shorten formats a value for an error message; "" if it is too long.
func shorten(v jsonx.Value) string {
	if s, ok := v.Str(); ok && len(s) <= maxShown {
		return s
	}
	if len(v.Raw) > maxShown {
		return ""
	}
	return string(v.Raw)
}

// snake converts a name into Google's other spelling: generationConfig into generation_config.
func snake(camel string) string {
	if strings.ToLower(camel) == camel {
		return camel
	}
	var b strings.Builder
	for _, c := range camel {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Top returns a top-level member; usual are its values without a charge.
func Top(name string, by Basis, free ...string) ChargedMember {
	return ChargedMember{Path: []string{name}, By: by, Free: free}
}

// Common returns the members that cost more at every provider that supports them, in all formats except Google's.
func Common() []ChargedMember {
	return []ChargedMember{
		Top("service_tier", PerTier),
		Top("background", Unpriced), // the usage is reported later
		Top("speed", Unpriced, "standard", "normal"),
		Top("inference_geo", Unpriced, "global"),
		Top("container", Unpriced),
		Top("mcp_servers", Unpriced),
		Top("modalities", Unpriced, "text"),
		Top("web_search_options", PerSearch),
		Top("search_options", PerSearch),
		Top("enable_search", PerSearch),
		Top("search_parameters", Unpriced),
		Top("fallbacks", Unpriced),
	}
}

// Aggregator returns the members with which an aggregator answers with another model than the requested one, or runs something that the
// request does not contain.
func Aggregator() []ChargedMember {
	return []ChargedMember{Top("models", Unpriced), Top("plugins", Unpriced), Top("route", Unpriced), Top("preset", Unpriced)}
}
