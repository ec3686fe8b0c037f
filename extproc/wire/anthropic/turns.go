package anthropic

import (
	"fmt"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// turn is what one side says at a stretch. This format wants the sides to alternate, the user to begin, and the results
// of tools to come first in the turn after their calls.
type turn struct {
	assistant bool
	results   []chat.Part // of the user's side
	parts     []chat.Part
}

// alternate groups the messages into turns. What cannot be said is left out and named; so is a turn with nothing left.
func (w *writer) alternate() []turn {
	messages := w.conv.Messages
	if len(messages) == 0 { // a system prompt alone is still a question
		messages = []chat.Message{{Role: chat.RoleUser, Parts: w.conv.System}}
	}
	var ts []turn
	for i := range messages {
		m := &messages[i]
		assistant := m.Role == chat.RoleAssistant
		parts := w.sayable(m)
		if len(parts) == 0 {
			continue
		}
		if len(ts) == 0 && assistant {
			ts = append(ts, turn{parts: []chat.Part{{Kind: chat.PartText, Text: "Continue."}}})
		}
		if len(ts) == 0 || ts[len(ts)-1].assistant != assistant {
			ts = append(ts, turn{assistant: assistant})
		}
		ts[len(ts)-1].add(parts)
	}
	return ts
}

func (t *turn) add(parts []chat.Part) {
	for i := range parts {
		if parts[i].Kind == chat.PartToolResult {
			t.results = append(t.results, parts[i])
		} else {
			t.parts = append(t.parts, parts[i])
		}
	}
}

// sayable returns a message's parts without those that have no place in a turn of its side.
func (w *writer) sayable(m *chat.Message) []chat.Part {
	var parts []chat.Part
	for _, p := range m.Parts {
		switch {
		case isText(p.Kind):
			if strings.TrimSpace(p.Text) == "" { // refused by the API, and says nothing
				continue
			}
			if m.Role == chat.RoleSystem {
				w.lose("system")
				p.Text = "<system>\n" + p.Text + "\n</system>"
			}
		case !fits(&p, m.Role == chat.RoleAssistant):
			w.losePart(&p)
			continue
		}
		parts = append(parts, p)
	}
	return parts
}

func isText(k chat.PartKind) bool { return k == chat.PartText || k == chat.PartRefusal }

// fits reports whether a part may stand in a turn. Thinking is of use only with the signature that proves it.
func fits(p *chat.Part, assistant bool) bool {
	switch p.Kind {
	case chat.PartText, chat.PartRefusal:
		return true
	case chat.PartImage, chat.PartDocument, chat.PartToolResult:
		return !assistant
	case chat.PartToolUse, chat.PartRedacted:
		return assistant
	case chat.PartThinking:
		return assistant && p.Signature != ""
	case chat.PartOther:
	}
	return false
}

// losePart names a part that is left out.
func (w *writer) losePart(p *chat.Part) {
	switch p.Kind {
	case chat.PartText, chat.PartRefusal, chat.PartToolUse, chat.PartToolResult:
		w.lose("content")
	case chat.PartImage:
		w.lose("image")
	case chat.PartDocument:
		w.lose("document")
	case chat.PartThinking, chat.PartRedacted:
		w.lose("reasoning_content")
	case chat.PartOther:
		kind, _ := jsonx.Value{Raw: p.Raw}.Get("type").Str()
		w.lose(kind)
	}
}

// checkCalls refuses a history in which a call has no result in the turn after it, or a result no call in the turn
// before it: the API would, in words that fit no message of the caller's.
func checkCalls(ts []turn) error {
	var calls []string // of the turn before
	for i := range ts {
		t := &ts[i]
		for j := range t.results {
			id := t.results[j].Tool.ID
			if !slices.Contains(calls, id) {
				return invalid("messages", fmt.Sprintf("hold a tool result for %q, which the assistant did not call in the turn before", id))
			}
		}
		for _, id := range calls {
			if !slices.ContainsFunc(t.results, func(p chat.Part) bool { return p.Tool.ID == id }) {
				return unanswered(id)
			}
		}
		calls = calls[:0]
		for j := range t.parts {
			if t.parts[j].Kind == chat.PartToolUse {
				calls = append(calls, t.parts[j].Tool.ID)
			}
		}
	}
	if len(calls) > 0 {
		return unanswered(calls[0])
	}
	return nil
}

func unanswered(id string) error {
	return invalid("messages", fmt.Sprintf("hold the tool call %q without its result in the turn after", id))
}

// inToolLoop reports whether the model is to go on from tool results after a turn that did not begin with thinking.
// Thinking with a budget cannot be switched on there.
func inToolLoop(ts []turn) bool {
	n := len(ts)
	if n < 2 || len(ts[n-1].results) == 0 {
		return false
	}
	first := ts[n-2].parts[0].Kind
	return first != chat.PartThinking && first != chat.PartRedacted
}
