package wire

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// MaxMarks is the maximum number of prompt cache marks in a request (K-24).
const MaxMarks = 4

// Ephemeral is the mark that the gateway sets.
const Ephemeral = `{"type":"ephemeral"}`

// Mark returns a conversation with the cache marks of a plan: in the system prompt, whose text is split at the boundary, at the end of the
// conversation, and on the last tool. The client's own marks have precedence: no mark is added beyond the maximum, nor where the prefix is
// shorter than minTokens, the minimum that the model's provider caches (D-35). c is not changed.
func Mark(c *chat.Conversation, plan *chat.CachePlan, minTokens int) *chat.Conversation {
	left := MaxMarks - countMarks(c)
	if !plan.SetsMarks() || left <= 0 {
		return c
	}
	m := *c
	offered := toolBytes(c.Tools)
	if m.System = markSystem(c.System, plan, offered, minTokens); len(m.System) > 0 && partMarks(m.System) > partMarks(c.System) {
		left--
	}
	if plan.End && left > 0 && mayReach(offered+textBytes(c.System)+messageBytes(c.Messages), minTokens) && markEnd(&m) {
		left--
	}
	if n := len(c.Tools) - 1; plan.Tools && left > 0 && n >= 0 && c.Tools[n].CacheControl == nil && c.Tools[n].Raw == nil && mayReach(offered, minTokens) {
		m.Tools = slices.Clone(c.Tools)
		m.Tools[n].CacheControl = jsonx.Raw(Ephemeral)
	}
	return &m
}

// LimitMarks returns a conversation with at most MaxMarks cache marks; a provider with this limit refuses more, and other formats have none. It reports whether
// marks were removed. Of the tools and of the system prompt the last mark is kept, which covers what precedes it, and of the messages the last ones, which the
// next request continues. c is not changed.
func LimitMarks(c *chat.Conversation) (_ *chat.Conversation, removed bool) {
	if countMarks(c) <= MaxMarks {
		return c, false
	}
	m := *c
	m.Tools, m.Messages = slices.Clone(c.Tools), slices.Clone(c.Messages)
	var tools, system, messages []*jsonx.Raw
	for i := range m.Tools {
		if t := &m.Tools[i]; t.CacheControl != nil {
			tools = append(tools, &t.CacheControl)
		}
	}
	m.System = clonedMarks(c.System, &system)
	for i := range m.Messages {
		m.Messages[i].Parts = clonedMarks(m.Messages[i].Parts, &messages)
	}
	left := MaxMarks - len(lastOf(tools)) - len(lastOf(system))
	for _, mark := range messages[:max(len(messages)-left, 0)] {
		*mark = nil
	}
	return &m, true
}

// clonedMarks returns a copy of parts, and appends the places of their marks to marks.
func clonedMarks(parts []chat.Part, marks *[]*jsonx.Raw) []chat.Part {
	parts = slices.Clone(parts)
	for i := range parts {
		p := &parts[i]
		p.Parts = clonedMarks(p.Parts, marks)
		if p.CacheControl != nil {
			*marks = append(*marks, &p.CacheControl)
		}
	}
	return parts
}

// lastOf removes all marks except the last one, and returns that.
func lastOf(marks []*jsonx.Raw) []*jsonx.Raw {
	n := max(len(marks)-1, 0)
	for _, mark := range marks[:n] {
		*mark = nil
	}
	return marks[n:]
}

// markSystem returns the system prompt with a mark at the end of its stable part. before is the size in bytes of what precedes it.
func markSystem(system []chat.Part, plan *chat.CachePlan, before, minTokens int) []chat.Part {
	texts := make([]string, len(system))
	for i := range system {
		if system[i].Kind == chat.PartText {
			texts[i] = system[i].Text
		}
	}
	i, cut := plan.Boundary(texts)
	if i >= 0 && cut > 0 && system[i].CacheControl != nil { // the client's mark stays where it is
		i, cut = plan.Boundary(texts[:i])
	}
	if i < 0 || system[i].CacheControl != nil || !mayReach(before+stableBytes(texts, i, cut), minTokens) {
		return system
	}
	system = slices.Clone(system)
	if cut > 0 {
		rest := system[i]
		rest.Text = rest.Text[cut:]
		system[i].Text = system[i].Text[:cut]
		system = slices.Insert(system, i+1, rest)
	}
	system[i].CacheControl = jsonx.Raw(Ephemeral)
	return system
}

// stableBytes returns the size of the texts before a boundary.
func stableBytes(texts []string, i, cut int) (n int) {
	for _, s := range texts[:i] {
		n += len(s)
	}
	if cut > 0 {
		return n + cut
	}
	return n + len(texts[i])
}

// markEnd marks the last part of the conversation; false if there is none, or if the model would continue it.
func markEnd(c *chat.Conversation) bool {
	n := len(c.Messages) - 1
	if n < 0 || c.Messages[n].Role == chat.RoleAssistant || len(c.Messages[n].Parts) == 0 {
		return false
	}
	parts := slices.Clone(c.Messages[n].Parts)
	parts[len(parts)-1].CacheControl = jsonx.Raw(Ephemeral)
	c.Messages = slices.Clone(c.Messages)
	c.Messages[n].Parts = parts
	return true
}

// mayReach reports whether a prefix of so many bytes may have that many tokens. When in doubt it returns true: a superfluous mark is
// ignored, a missing one loses the savings of the cache.
func mayReach(bytes, tokens int) bool { return 2*bytes >= twoTokensOfText*tokens }

func textBytes(parts []chat.Part) (n int) {
	for i := range parts {
		p := &parts[i]
		n += len(p.Text) + len(p.Data) + len(p.Tool.Args) + textBytes(p.Parts)
	}
	return n
}

func messageBytes(ms []chat.Message) (n int) {
	for i := range ms {
		n += textBytes(ms[i].Parts)
	}
	return n
}

// toolBytes returns the size of the tools as a provider reads them.
func toolBytes(tools []chat.Tool) (n int) {
	for i := range tools {
		t := &tools[i]
		n += len(t.Name) + len(t.Description) + len(t.Schema) + len(t.Raw)
	}
	return n
}

func countMarks(c *chat.Conversation) int {
	n := partMarks(c.System)
	for i := range c.Messages {
		n += partMarks(c.Messages[i].Parts)
	}
	for i := range c.Tools {
		if c.Tools[i].CacheControl != nil {
			n++
		}
	}
	return n
}

func partMarks(parts []chat.Part) (n int) {
	for i := range parts {
		if parts[i].CacheControl != nil {
			n++
		}
		n += partMarks(parts[i].Parts)
	}
	return n
}
