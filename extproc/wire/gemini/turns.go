package gemini

import (
	"cmp"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
)

// turn is what one side says at a stretch. This format wants the user to begin and to end, the sides to alternate, and the
// results of tools first in the turn after their calls, as many as there were calls.
type turn struct {
	model   bool
	results []chat.Part // of the user's side
	parts   []chat.Part
}

// alternate groups the messages into turns. What cannot be said is left out and named; so is a turn with nothing left. A system prompt
// with no turn beside it is still a question.
func (w *writer) alternate() ([]turn, error) {
	ts := w.group(w.Conv.Messages)
	if len(ts) == 0 {
		w.soleSystem = true
		ts = w.group([]chat.Message{{Role: chat.RoleUser, Parts: w.Conv.System}})
	}
	if len(ts) == 0 {
		return nil, invalid("contents", "messages say nothing that this provider can be told")
	}
	if ts[len(ts)-1].model { // the answer begins anew here, and does not go on
		w.Lose("prefill")
		ts = append(ts, proceed())
	}
	w.nameCalls(ts)
	return ts, nil
}

// proceed is a turn of the user's where this format wants one and there is none.
func proceed() turn {
	return turn{parts: []chat.Part{{Kind: chat.PartText, Text: "Continue."}}}
}

func (w *writer) group(messages []chat.Message) []turn {
	var ts []turn
	for i := range messages {
		m := &messages[i]
		model := m.Role == chat.RoleAssistant
		parts := w.sayable(m)
		if len(parts) == 0 {
			continue
		}
		if len(ts) == 0 && model {
			ts = append(ts, proceed())
		}
		if len(ts) == 0 || ts[len(ts)-1].model != model {
			ts = append(ts, turn{model: model})
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
		if p.CacheControl != nil {
			w.Lose("cache_control")
		}
		switch {
		case p.Kind == chat.PartText || p.Kind == chat.PartRefusal:
			if p.Text == "" { // says nothing
				continue
			}
			if m.Role == chat.RoleSystem {
				w.Lose("system")
				p.Text = "<system>\n" + p.Text + "\n</system>"
			}
		case !w.fits(&p, m.Role == chat.RoleAssistant):
			w.LosePart(&p)
			continue
		}
		parts = append(parts, p)
	}
	if !slices.ContainsFunc(parts, says) {
		for i := range parts {
			w.LosePart(&parts[i])
		}
		return nil
	}
	return parts
}

// says reports whether a part is more than a signature or a thought: a turn of these alone says nothing to anybody.
func says(p chat.Part) bool { return p.Kind != chat.PartRedacted && p.Kind != chat.PartThinking }

// fits reports whether a part may stand in a turn.
func (w *writer) fits(p *chat.Part, model bool) bool {
	switch p.Kind {
	case chat.PartText, chat.PartRefusal:
		return true
	case chat.PartImage, chat.PartDocument:
		return true
	case chat.PartToolResult:
		return !model
	case chat.PartToolUse:
		return model
	case chat.PartRedacted, chat.PartThinking:
		return model && !w.opts.NoSignatures && p.SignedBy() == chat.GeminiThinking
	case chat.PartOther:
	}
	return false
}

// nameCalls gives results the names of their functions, which stand with the calls in other formats, and puts the results of a
// turn into the order of its calls.
func (w *writer) nameCalls(ts []turn) {
	for i := 1; i < len(ts); i++ {
		if len(ts[i].results) == 0 {
			continue
		}
		order := map[string]int{}
		names := map[string]string{}
		for j := range ts[i-1].parts {
			if p := &ts[i-1].parts[j]; p.Kind == chat.PartToolUse {
				if _, twice := order[p.Tool.ID]; !twice {
					order[p.Tool.ID] = j
				}
				names[p.Tool.ID] = p.Tool.Name
			}
		}
		for j := range ts[i].results {
			call := &ts[i].results[j].Tool
			call.Name = cmp.Or(names[call.ID], call.Name)
		}
		slices.SortStableFunc(ts[i].results, func(a, b chat.Part) int { return order[a.Tool.ID] - order[b.Tool.ID] })
	}
}

// documentText is a document as text, under what is said about it.
func documentText(p *chat.Part) string {
	said := slices.DeleteFunc([]string{p.Name, p.Context, cmp.Or(p.Text, p.URL)}, func(s string) bool { return s == "" })
	return strings.Join(said, "\n\n")
}
