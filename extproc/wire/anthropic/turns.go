package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// alternate groups the messages into turns. What cannot be said is left out and named.
func (w *writer) alternate() (ts []wire.Turn, err error) {
	if ts, w.soleSystem = wire.Turns(w.Conv, w.supportedParts); len(ts) == 0 {
		return nil, invalid("messages", "say nothing that this provider can be told")
	}
	nameCalls(ts)
	return ts, nil
}

// supportedParts returns a message's parts without those that have no place in a turn of its side.
func (w *writer) supportedParts(m *chat.Message) []chat.Part {
	var parts []chat.Part
	for _, p := range m.Parts {
		switch {
		case isText(p.Kind):
			if strings.TrimSpace(p.Text) == "" { // refused by the API, and says nothing
				w.moveMark(parts, &p)
				continue
			}
			if m.Role == chat.RoleSystem {
				w.Lose("system")
				p.Text = "<system>\n" + p.Text + "\n</system>"
			}
		case !w.fits(&p, m.Role == chat.RoleAssistant):
			w.LosePart(&p)
			w.moveMark(parts, &p)
			continue
		}
		parts = append(parts, p)
	}
	return parts
}

// moveMark keeps the cache mark of a part that is left out: it stands at the same place on the part before.
func (w *writer) moveMark(before []chat.Part, p *chat.Part) {
	n := len(before)
	switch {
	case p.CacheControl == nil:
	case n == 0 || before[n-1].Kind == chat.PartThinking || before[n-1].Kind == chat.PartRedacted:
		w.Lose("cache_control")
	case before[n-1].CacheControl == nil:
		before[n-1].CacheControl = p.CacheControl
	}
}

func isText(k chat.PartKind) bool { return k == chat.PartText || k == chat.PartRefusal }

// fits reports whether a part may stand in a turn.
func (w *writer) fits(p *chat.Part, assistant bool) bool {
	switch p.Kind {
	case chat.PartText, chat.PartRefusal:
		return true
	case chat.PartImage, chat.PartDocument, chat.PartToolResult:
		return !assistant
	case chat.PartToolUse:
		return assistant
	case chat.PartRedacted, chat.PartThinking:
		return assistant && w.keepsThinking(p)
	case chat.PartAudio, chat.PartVideo, chat.PartFile, chat.PartOther:
	}
	return false
}

// keepsThinking reports whether thinking is of use: with the signature that proves it, to those who can check it; as
// words, to those who sign nothing. Those lose the signature.
func (w *writer) keepsThinking(p *chat.Part) bool {
	switch w.opts.StripThinking {
	case StripNothing, StripUnsigned:
		return p.SignedBy() == chat.ClaudeThinking
	case StripSignatures:
		if p.Signature != "" && p.Text != "" {
			w.Lose("thinking")
			p.Signature = ""
		}
		return p.Kind == chat.PartThinking && p.Text != "" && p.Signature == ""
	case StripAll:
	}
	return false
}

// nameCalls gives every call an id of the letters that the API takes, and of its own: some servers number the calls of
// each answer anew. Results change with their calls.
func nameCalls(ts []wire.Turn) {
	seen := map[string]int{}
	var names map[string][]string // of the calls of the turn before that have no result yet, by the ids that the client gave
	for i := range ts {
		t := &ts[i]
		for j := range t.Results {
			id := t.Results[j].Tool.ID
			if of := names[id]; len(of) > 0 {
				t.Results[j].Tool.ID, names[id] = of[0], of[1:]
			}
		}
		names = nil
		for j := range t.Parts {
			if p := &t.Parts[j]; p.Kind == chat.PartToolUse {
				if names == nil {
					names = map[string][]string{}
				}
				id := p.Tool.ID
				p.Tool.ID = unseen(seen, toolID(id))
				names[id] = append(names[id], p.Tool.ID)
			}
		}
	}
}

// unseen makes an id one that was not given before. seen has the number behind each id that was, where to look on for the next.
func unseen(seen map[string]int, id string) string {
	n, given := seen[id]
	if !given {
		seen[id] = 2
		return id
	}
	for ; ; n++ {
		name := id + "_" + strconv.Itoa(n)
		if _, given := seen[name]; !given {
			seen[id], seen[name] = n+1, 2
			return name
		}
	}
}

// toolID makes an id of the letters that the API takes.
func toolID(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, id)
}

// canThink reports whether thinking with a budget may be on. It cannot begin in the middle of a turn of the model's: in
// an answer that was begun for it, and while it works with tools since a turn that did not begin with thinking.
func canThink(ts []wire.Turn) bool {
	last := len(ts) - 1
	if ts[last].Assistant {
		return false
	}
	var first *chat.Part
	for i := last; i > 0 && len(ts[i].Results) > 0; i -= 2 {
		first = &ts[i-1].Parts[0]
	}
	return first == nil || isThought(first.Kind)
}

// stopThinking leaves out what was thought in the turn that goes on, where thinking is off: the API refuses both together.
func (w *writer) stopThinking() {
	last := len(w.turns) - 1
	for i := last; i > 0 && len(w.turns[i].Results) > 0; i -= 2 {
		t := &w.turns[i-1]
		t.Parts = slices.DeleteFunc(t.Parts, func(p chat.Part) bool {
			thought := isThought(p.Kind)
			if thought {
				w.LosePart(&p)
			}
			return thought
		})
	}
}

func isThought(k chat.PartKind) bool { return k == chat.PartThinking || k == chat.PartRedacted }
