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

// cutThoughts removes from the history of a request of this dialect the reasoning_content that the provider does not accept, and the other
// two reasoning members if it does not accept these. Only reasoning_details is named as degraded: the others hold nothing that a provider
// could verify.
func (o *RequestOptions) cutThoughts(e *jsonx.Edits, d *jsonx.Doc) (degraded []string) {
	content, others := o.ReasoningContent != AnyReasoningContent, o.NoDetails
	if !content && !others || !d.Stats.Keys.Meets(&thoughtKeys) {
		return nil
	}
	var turn []jsonx.Value // assistant messages of this turn
	called := false
	end := func() {
		for _, m := range turn {
			degraded = append(degraded, o.cutThoughtsOf(e, d, m, called)...)
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
	return degraded[:min(len(degraded), 1)]
}

// cutThoughtsOf is cutThoughts for one message. In a turn with tool calls, reasoning in another member is moved to reasoning_content.
func (o *RequestOptions) cutThoughtsOf(e *jsonx.Edits, d *jsonx.Doc, m jsonx.Value, called bool) (degraded []string) {
	var names []string
	wanted := o.ReasoningContent == ReasoningContentForTools && called
	if o.NoDetails {
		names = append(names, keyDetails)
		if !o.KeepReasoning {
			names = append(names, keyReasoning)
		}
		if m.Get(keyDetails).Exists() {
			degraded = []string{keyDetails}
		}
	}
	if o.ReasoningContent != AnyReasoningContent && !wanted {
		names = append(names, keyReasoningContent)
	}
	wire.CutMembers(e, d, m, names...)
	if t, _ := m.Get(keyReasoningContent).Str(); wanted && t == "" {
		if thoughts := thoughtsOf(m); thoughts != "" {
			e.Replace(m.At+1, m.At+1, append(jsonx.AppendString([]byte(`"`+keyReasoningContent+`":`), thoughts), ','))
		}
	}
	return degraded
}

// thoughtsOf returns the reasoning of a message without reasoning_content.
func thoughtsOf(m jsonx.Value) string {
	if m.Get(keyReasoningContent).Exists() { // empty; another one would be a duplicate
		return ""
	}
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
