package openai

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// K-17: DeepSeek requires the reasoning of a turn with tool calls in later requests, and refuses those without it. It ignores the reasoning
// of other turns, and its older models refuse it. A turn is everything from one user message to the next.

// toolTurns reports for each message whether a tool was called in its turn.
func toolTurns(ms []chat.Message) []bool {
	turns := make([]bool, len(ms))
	start := 0
	end := func(to int, called bool) {
		for i := start; called && i < to; i++ {
			turns[i] = true
		}
		start = to
	}
	called := false
	for i := range ms {
		if isUser(&ms[i]) {
			end(i, called)
			called = false
		}
		called = called || calls(ms[i].Parts)
	}
	end(len(ms), called)
	return turns
}

// isUser reports whether a message is the user's own, not only tool results.
func isUser(m *chat.Message) bool {
	if m.Role != chat.RoleUser {
		return false
	}
	for i := range m.Parts {
		if !wire.IsToolResult(m.Parts[i]) {
			return true
		}
	}
	return false
}

// reasoningContent writes the reasoning of a turn with tool calls.
func (w *writer) reasoningContent(thoughts []chat.Part) {
	text := false
	for i := range thoughts {
		p := &thoughts[i]
		switch {
		case p.Kind != chat.PartThinking:
			w.dropPart(p)
		case !text:
			text = true
			w.Key(keyReasoningContent)
			w.Raw(`"`)
			fallthrough
		default:
			w.Dst = jsonx.AppendEscaped(w.Dst, p.Text)
		}
	}
	if text {
		w.Raw(`"`)
	}
}

var thoughtKeys = jsonx.WordsOf(keyReasoning, keyReasoningContent, keyDetails)

// reasoning collects the reasoning members of a message that the provider refuses, and moves the text of reasoning to the member that it
// reads: reasoning_content in a turn with tool calls, or reasoning. Only reasoning_details is named as degraded: the others hold nothing
// that a provider could verify.
func (c *cutter) reasoning(m jsonx.Value, called bool) {
	wanted := c.o.ReasoningContent == ReasoningContentForTools && called
	refused := c.o.ReasoningContent != AnyReasoningContent && !wanted
	if c.o.NoDetails {
		c.names = append(c.names, keyDetails)
		if !c.o.KeepReasoning {
			c.names = append(c.names, keyReasoning)
		}
		if m.Get(keyDetails).Exists() {
			c.degrade("reasoning_details")
		}
	}
	if refused {
		c.names = append(c.names, keyReasoningContent)
	}
	var key string
	switch {
	case wanted:
		key = keyReasoningContent
	case refused && c.o.KeepReasoning:
		key = keyReasoning
	default:
		return
	}
	if m.Get(key).Exists() { // another one would be a duplicate
		return
	}
	if thoughts := thoughtsOf(m); thoughts != "" {
		c.insert(m, key, jsonx.AppendString(nil, thoughts))
	}
}

// thoughtsOf returns the reasoning of a message.
func thoughtsOf(m jsonx.Value) string {
	thoughts, err := readReasoningOf(&chat.Conversation{Words: words}, m, "")
	if err != nil { // the provider will refuse the request
		return ""
	}
	var text strings.Builder
	for i := range thoughts {
		text.WriteString(thoughts[i].Text)
	}
	return text.String()
}
