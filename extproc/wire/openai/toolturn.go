package openai

import (
	"strings"

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

// cutThoughts takes out of the history of a request of this dialect what the provider does not want of its reasoning_content, and the
// other two members that thoughts come in where it refuses or does not know them. It names the details, which alone hold something that
// is of use to anybody.
func (o *RequestOptions) cutThoughts(e *jsonx.Edits, d *jsonx.Doc) (lost []string) {
	content, others := o.ReasoningContent != AnyReasoningContent, o.NoDetails
	if !content && !others || !d.MayHold(`"`+keyReasoning) { // with which all three begin
		return nil
	}
	var turn []jsonx.Value // the assistant's messages of this turn
	called := false
	end := func() {
		for _, m := range turn {
			lost = append(lost, o.cutThoughtsOf(e, d, m, called)...)
		}
		turn, called = turn[:0], false
	}
	for _, m := range d.Get("messages").Each {
		switch role := m.Get("role"); {
		case role.Equal("user"):
			end()
		case role.Equal("assistant"):
			turn = append(turn, m)
			called = called || m.Get("tool_calls").Kind() == jsonx.Array
		}
	}
	end()
	return lost[:min(len(lost), 1)]
}

// cutThoughtsOf is cutThoughts for one message. What was thought in a turn that called tools, and stands in another member, is told in
// reasoning_content.
func (o *RequestOptions) cutThoughtsOf(e *jsonx.Edits, d *jsonx.Doc, m jsonx.Value, called bool) (lost []string) {
	var names []string
	wanted := o.ReasoningContent == ReasoningContentForTools && called
	if o.NoDetails {
		names = append(names, keyDetails, keyReasoning)
		if m.Get(keyDetails).Exists() {
			lost = []string{keyDetails}
		}
	}
	if o.ReasoningContent != AnyReasoningContent && !wanted {
		names = append(names, keyReasoningContent)
	}
	wire.CutMembers(e, d, m, names...)
	if t, _ := m.Get(keyReasoningContent).Str(); wanted && t == "" {
		if told := thoughtsOf(m); told != "" {
			e.Replace(m.At+1, m.At+1, append(jsonx.AppendString([]byte(`"`+keyReasoningContent+`":`), told), ','))
		}
	}
	return lost
}

// thoughtsOf is what a message that has no reasoning_content says of the model's thoughts.
func thoughtsOf(m jsonx.Value) string {
	if m.Get(keyReasoningContent).Exists() { // empty, and would be there twice
		return ""
	}
	thoughts, err := readReasoningOf(&chat.Conversation{Words: words}, m, "")
	if err != nil { // the provider will say so
		return ""
	}
	var text strings.Builder
	for i := range thoughts {
		text.WriteString(thoughts[i].Text)
	}
	return text.String()
}
