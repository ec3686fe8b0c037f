package toolcall

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Render converts a conversation for a model without native tool calling: tool definitions are added to the system prompt, calls and results
// become text of the messages. degraded lists the features, by the client's names, that are only requested in the prompt or dropped. A
// conversation without tools and calls is returned unchanged; c is not modified.
func Render(c *chat.Conversation, f Format) (text *chat.Conversation, degraded []string) {
	offered := Offered(c)
	if len(c.Tools) == 0 && !hasCalls(c) {
		return c, nil
	}
	w := *c
	w.Tools, w.ToolChoice, w.ParallelTools = nil, chat.ToolChoice{}, nil
	if len(offered) > 0 {
		part := chat.Part{Kind: chat.PartText, Text: toolPrompt(c, f, offered), CacheControl: lastCacheControl(offered)}
		w.System = append(slices.Clip(c.System), part)
	}
	h := history{format: f, toolNames: map[string]string{}}
	for i := range c.Messages {
		h.message(&c.Messages[i])
	}
	w.Messages = h.flush()
	return &w, degradedFeatures(c, offered)
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

// lastCacheControl is the cache_control of the last tool that has one: it applies to the list of tools.
func lastCacheControl(offered []chat.Tool) jsonx.Raw {
	for i := range slices.Backward(offered) {
		if m := offered[i].CacheControl; m != nil {
			return m
		}
	}
	return nil
}

// degradedFeatures lists what the prompt cannot enforce, and the provider's built-in tools, which are dropped.
func degradedFeatures(c *chat.Conversation, offered []chat.Tool) []string {
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

// history rewrites the messages.
type history struct {
	format    Format
	toolNames map[string]string // names of called tools, by call id
	out       []chat.Message
	pending   []chat.Part // results of the last turn's calls, not written yet
	pendingAt string      // position of the first pending result in the client's request, for error messages
}

func (h *history) message(m *chat.Message) {
	switch {
	case !slices.ContainsFunc(m.Parts, isCall):
		h.out = append(h.flush(), *m)
	case m.Role == chat.RoleAssistant:
		h.out = append(h.flush(), chat.Message{Role: m.Role, At: m.At, Parts: h.assistantParts(m.Parts)})
	default:
		h.results(m)
	}
}

// assistantParts converts the calls of an assistant message to text.
func (h *history) assistantParts(parts []chat.Part) []chat.Part {
	out := make([]chat.Part, 0, len(parts))
	afterText, array := false, false // in the JSON format all calls of a turn are one array
	for i := range parts {
		p := parts[i]
		if p.Kind != chat.PartToolUse {
			afterText = afterText || p.Kind == chat.PartText
			out = append(out, p)
			continue
		}
		h.toolNames[p.Tool.ID] = p.Tool.Name
		if h.format == JSON && array {
			continue
		}
		b := appendCalls(nil, h.format, parts[i:], afterText)
		afterText, array = true, true
		out = append(out, chat.Part{Kind: chat.PartText, Text: string(b), CacheControl: p.CacheControl})
	}
	return out
}

// results collects tool results. Those of one turn become one user message.
func (h *history) results(m *chat.Message) {
	if len(h.pending) == 0 {
		h.pendingAt = m.At
	}
	var rest []chat.Part
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Kind == chat.PartToolResult {
			text, others := h.result(p)
			h.pending = append(append(h.pending, text), others...)
		} else {
			rest = append(rest, *p)
		}
	}
	h.pending = append(h.pending, rest...)
}

// flush writes the pending results and returns all messages so far.
func (h *history) flush() []chat.Message {
	if len(h.pending) > 0 {
		h.out = append(h.out, chat.Message{Role: chat.RoleUser, At: h.pendingAt, Parts: joinTexts(h.pending)})
		h.pending = nil
	}
	return h.out
}

// joinTexts merges adjacent text parts, unless the first one ends with a cache_control.
func joinTexts(parts []chat.Part) []chat.Part {
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

// result converts a tool result to text; others are its parts that are not text.
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
	return chat.Part{Kind: chat.PartText, Text: string(appendResult(nil, h.format, h.toolNames[p.Tool.ID], s)), CacheControl: p.CacheControl}, others
}
