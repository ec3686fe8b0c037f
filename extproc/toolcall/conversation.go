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
	w.Messages = h.end()
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
		add(c.Word("disable_parallel_tool_use"))
	}
	return names
}

// history writes messages anew.
type history struct {
	format   Format
	names    map[string]string // of called tools, by the ids of their calls
	out      []chat.Message
	returned []chat.Part // by the calls of the last turn
	at       string      // where they stand
}

func (h *history) message(m *chat.Message) {
	switch {
	case !slices.ContainsFunc(m.Parts, isCall):
		h.out = append(h.end(), *m)
	case m.Role == chat.RoleAssistant:
		h.out = append(h.end(), chat.Message{Role: m.Role, At: m.At, Parts: h.said(m.Parts)})
	default:
		h.results(m)
	}
}

// said is what the model said in a turn, with its calls as it wrote them.
func (h *history) said(parts []chat.Part) []chat.Part {
	out := make([]chat.Part, 0, len(parts))
	spoke, array := false, false // the text of a turn is read as one; in plain JSON, all of its calls are one array
	for i := range parts {
		p := parts[i]
		if p.Kind != chat.PartToolUse {
			spoke = spoke || p.Kind == chat.PartText
			out = append(out, p)
			continue
		}
		h.names[p.Tool.ID] = p.Tool.Name
		if h.format == JSON && array {
			continue
		}
		b := appendCalls(nil, h.format, parts[i:], spoke)
		spoke, array = true, true
		out = append(out, chat.Part{Kind: chat.PartText, Text: string(b), CacheControl: p.CacheControl})
	}
	return out
}

// results takes what calls returned. All of one turn become what the user says next.
func (h *history) results(m *chat.Message) {
	if len(h.returned) == 0 {
		h.at = m.At
	}
	var rest []chat.Part
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Kind == chat.PartToolResult {
			text, others := h.result(p)
			h.returned = append(append(h.returned, text), others...)
		} else {
			rest = append(rest, *p)
		}
	}
	h.returned = append(h.returned, rest...)
}

// end writes the results that wait, and returns all messages so far.
func (h *history) end() []chat.Message {
	if len(h.returned) > 0 {
		h.out = append(h.out, chat.Message{Role: chat.RoleUser, At: h.at, Parts: joined(h.returned)})
		h.returned = nil
	}
	return h.out
}

// joined has texts that follow each other as one, unless a cache mark ends the first.
func joined(parts []chat.Part) []chat.Part {
	var out []chat.Part
	for i := 0; i < len(parts); {
		p, end := parts[i], i+1
		if p.Kind == chat.PartText {
			for end < len(parts) && parts[end].Kind == chat.PartText && parts[end-1].CacheControl == nil {
				end++
			}
			texts := make([]string, 0, end-i)
			for _, t := range parts[i:end] {
				texts = append(texts, t.Text)
			}
			p = chat.Part{Kind: chat.PartText, Text: strings.Join(texts, "\n"), CacheControl: parts[end-1].CacheControl}
		}
		out = append(out, p)
		i = end
	}
	return out
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
