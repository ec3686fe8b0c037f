package toolcall

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Write is a conversation as a model of this format reads it: the tools stand in the system prompt, calls and results in the text of
// the messages. Degraded names, as the client does, what it can only be asked in words or not at all. A conversation without tools and
// calls comes back as it is; the one given is not changed.
func Write(c *chat.Conversation, f Format) (text *chat.Conversation, degraded []string) {
	offered := Offered(c)
	if len(c.Tools) == 0 && !hasCalls(c) {
		return c, nil
	}
	w := *c
	w.Tools, w.ToolChoice, w.ParallelTools = nil, chat.ToolChoice{}, nil
	if len(offered) > 0 {
		part := chat.Part{Kind: chat.PartText, Text: section(c, f, offered), CacheControl: cacheMark(offered)}
		w.System = append(slices.Clip(c.System), part)
	}
	h := history{format: f, names: map[string]string{}}
	for i := range c.Messages {
		h.message(&c.Messages[i])
	}
	w.Messages = h.out
	return &w, losses(c, offered)
}

func hasCalls(c *chat.Conversation) bool {
	for i := range c.Messages {
		if slices.ContainsFunc(c.Messages[i].Parts, isCall) {
			return true
		}
	}
	return false
}

func isCall(p chat.Part) bool { return p.Kind == chat.PartToolUse || p.Kind == chat.PartToolResult }

// cacheMark is where the client wants the list of its tools cached.
func cacheMark(offered []chat.Tool) jsonx.Raw {
	for i := range slices.Backward(offered) {
		if m := offered[i].CacheControl; m != nil {
			return m
		}
	}
	return nil
}

// losses names what nothing enforces, and the tools that only their own provider runs.
func losses(c *chat.Conversation, offered []chat.Tool) []string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range c.Tools {
		t := &c.Tools[i]
		switch {
		case t.Raw != nil:
			kind, _ := jsonx.Value{Raw: t.Raw}.Get("type").Str()
			add(kind)
		case t.Strict && len(offered) > 0:
			add("strict")
		}
	}
	if mode := c.ToolChoice.Mode; mode == chat.ToolAny || mode == chat.ToolNamed {
		add(c.Word("tool_choice"))
	}
	if p := c.ParallelTools; p != nil && !*p && len(offered) > 0 {
		add(c.Word("parallel_tool_calls"))
	}
	return names
}

// history writes messages anew.
type history struct {
	format  Format
	names   map[string]string // of called tools, by the ids of their calls
	out     []chat.Message
	results bool // the last message is of results
}

func (h *history) message(m *chat.Message) {
	switch {
	case !slices.ContainsFunc(m.Parts, isCall):
		h.out, h.results = append(h.out, *m), false
	case m.Role == chat.RoleAssistant:
		h.out, h.results = append(h.out, chat.Message{Role: m.Role, At: m.At, Parts: h.said(m.Parts)}), false
	default:
		h.returned(m)
	}
}

// said is what the model said in a turn, with its calls as it wrote them.
func (h *history) said(parts []chat.Part) []chat.Part {
	out := make([]chat.Part, 0, len(parts))
	spoke := false // the text of a turn is read as one
	for i := range parts {
		p := parts[i]
		if p.Kind == chat.PartToolUse {
			h.names[p.Tool.ID] = p.Tool.Name
			var b []byte
			if spoke {
				b = append(b, '\n')
			}
			p = chat.Part{Kind: chat.PartText, Text: string(appendCall(b, h.format, &p.Tool)), CacheControl: p.CacheControl}
		}
		spoke = spoke || p.Kind == chat.PartText
		out = append(out, p)
	}
	return out
}

// returned writes the results of a turn's calls as what the user says next: those of one turn stand in one message.
func (h *history) returned(m *chat.Message) {
	var parts, rest []chat.Part
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Kind == chat.PartToolResult {
			text, others := h.result(p)
			parts = append(append(parts, text), others...)
		} else {
			rest = append(rest, *p)
		}
	}
	parts = append(parts, rest...)
	if n := len(h.out); h.results {
		last := &h.out[n-1]
		last.Parts = joined(last.Parts, parts)
		return
	}
	h.out, h.results = append(h.out, chat.Message{Role: chat.RoleUser, At: m.At, Parts: joined(nil, parts)}), true
}

// joined appends parts, with texts that follow each other as one unless a cache mark ends the first.
func joined(to, parts []chat.Part) []chat.Part {
	for _, p := range parts {
		if n := len(to); n > 0 && p.Kind == chat.PartText && to[n-1].Kind == chat.PartText && to[n-1].CacheControl == nil {
			to[n-1].Text += "\n" + p.Text
			to[n-1].CacheControl = p.CacheControl
			continue
		}
		to = append(to, p)
	}
	return to
}

// result is a call's result as text, and what of it is none.
func (h *history) result(p *chat.Part) (text chat.Part, others []chat.Part) {
	var b strings.Builder
	for i := range p.Parts {
		e := p.Parts[i]
		if e.Kind != chat.PartText {
			others = append(others, e)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Text)
	}
	s := b.String()
	if p.IsError && !strings.HasPrefix(strings.ToLower(s), "error") {
		s = strings.TrimSuffix("Error: "+s, ": ")
	}
	return chat.Part{Kind: chat.PartText, Text: string(appendResult(nil, h.format, h.names[p.Tool.ID], s)), CacheControl: p.CacheControl}, others
}
