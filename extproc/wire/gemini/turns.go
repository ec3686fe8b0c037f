package gemini

import (
	"cmp"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// alternate groups the messages into turns. What cannot be expressed is dropped and named. The format requires a user turn at the end, and
// the results of a turn in the order of their calls.
func (w *writer) alternate() (ts []wire.Turn, err error) {
	if ts, w.soleSystem = wire.Turns(w.Conv, w.supportedParts); len(ts) == 0 {
		return nil, wire.NoContent(w.Conv)
	}
	if ts[len(ts)-1].Assistant { // the provider begins a new answer instead of continuing this one
		w.Degrade("prefill")
		ts = append(ts, wire.ContinueTurn())
	}
	w.nameResults(ts)
	return ts, nil
}

// supportedParts returns the parts of a message that its role may have.
func (w *writer) supportedParts(m *chat.Message) []chat.Part {
	var parts []chat.Part
	for _, p := range m.Parts {
		if p.CacheControl != nil {
			w.Degrade("cache_control")
		}
		switch {
		case p.Kind == chat.PartText || p.Kind == chat.PartRefusal:
			if p.Text == "" { // the API refuses it
				continue
			}
			if m.Role == chat.RoleSystem {
				w.Degrade("system")
				p.Text = "<system>\n" + p.Text + "\n</system>"
			}
		case !w.fits(&p, m.Role == chat.RoleAssistant):
			w.DropPart(&p)
			continue
		}
		parts = append(parts, p)
	}
	if !slices.ContainsFunc(parts, isSupported) {
		for i := range parts {
			w.DropPart(&parts[i])
		}
		return nil
	}
	return parts
}

// isSupported reports whether a part is more than a signature or a thought: a turn of only these is dropped.
func isSupported(p chat.Part) bool { return p.Kind != chat.PartRedacted && p.Kind != chat.PartThinking }

// fits reports whether a turn may contain a part.
func (w *writer) fits(p *chat.Part, model bool) bool {
	switch p.Kind {
	case chat.PartText, chat.PartRefusal:
		return true
	case chat.PartImage, chat.PartDocument:
		return true
	case chat.PartAudio, chat.PartVideo:
		return !model
	case chat.PartToolResult:
		return !model
	case chat.PartToolUse:
		return model
	case chat.PartRedacted, chat.PartThinking:
		return model && !w.opts.NoSignatures && p.SignedBy() == chat.GeminiThinking
	case chat.PartFile, chat.PartOther:
	}
	return false
}

// nameResults sets the function names of results, which other formats have only in the calls, and sorts results in the order of the calls.
func (w *writer) nameResults(ts []wire.Turn) {
	for i := 1; i < len(ts); i++ {
		if len(ts[i].Results) == 0 {
			continue
		}
		order := map[string]int{}
		names := map[string]string{}
		for j := range ts[i-1].Parts {
			if p := &ts[i-1].Parts[j]; p.Kind == chat.PartToolUse {
				if _, exists := order[p.Tool.ID]; !exists {
					order[p.Tool.ID] = j
				}
				names[p.Tool.ID] = p.Tool.Name
			}
		}
		for j := range ts[i].Results {
			call := &ts[i].Results[j].Tool
			call.Name = cmp.Or(names[call.ID], call.Name)
		}
		slices.SortStableFunc(ts[i].Results, func(a, b chat.Part) int { return order[a.Tool.ID] - order[b.Tool.ID] })
	}
}

// documentText returns a document as text, after its title and context.
func documentText(p *chat.Part) string {
	texts := slices.DeleteFunc([]string{p.Name, p.Context, cmp.Or(p.Text, p.URL)}, func(s string) bool { return s == "" })
	return strings.Join(texts, "\n\n")
}
