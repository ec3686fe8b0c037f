package openai

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// K-17: DeepSeek wants to see again what its model thought in a turn that called tools, and refuses the request without it. What
// was thought in other turns it ignores, and its older models refuse. A turn goes from one message of the user to the next.

// toolTurns tells of each message whether it is of a turn in which a tool was called.
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

// isUser reports whether a message says something of the user's, and not just what a tool returned.
func isUser(m *chat.Message) bool {
	if m.Role != chat.RoleUser {
		return false
	}
	for i := range m.Parts {
		if !isResult(m.Parts[i]) {
			return true
		}
	}
	return false
}

// reasoningContent writes what was thought in a turn that called tools.
func (w *writer) reasoningContent(thoughts []chat.Part) {
	text := false
	for i := range thoughts {
		p := &thoughts[i]
		switch {
		case p.Kind != chat.PartThinking:
			w.losePart(p)
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

// cutReasoning takes reasoning_content out of the history of a request of this dialect.
func cutReasoning(e *jsonx.Edits, d *jsonx.Doc, which ReasoningContent) {
	if which == AnyReasoningContent || !bytes.Contains(d.Bytes, []byte(`"`+keyReasoningContent+`"`)) {
		return
	}
	var turn []jsonx.Value // the assistant's messages of this turn
	called := false
	cut := func() {
		for _, m := range turn {
			if which == NoReasoningContent || !called {
				wire.CutMember(e, d, m, keyReasoningContent)
			}
		}
		turn, called = turn[:0], false
	}
	for _, m := range d.Get("messages").Each {
		switch role := m.Get("role"); {
		case role.Equal("user"):
			cut()
		case role.Equal("assistant"):
			turn = append(turn, m)
			called = called || m.Get("tool_calls").Kind() == jsonx.Array
		}
	}
	cut()
}
