package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// alternate groups the messages into turns. What cannot be expressed is dropped and named.
func (w *writer) alternate() (ts []wire.Turn, err error) {
	if ts, w.soleSystem = wire.Turns(w.Conv, w.supportedParts); len(ts) == 0 {
		return nil, wire.NoContent(w.Conv)
	}
	assignCallIDs(ts)
	return ts, nil
}

// supportedParts returns the parts of a message that are allowed for its role.
func (w *writer) supportedParts(m *chat.Message) []chat.Part {
	var parts []chat.Part
	for _, p := range m.Parts {
		switch {
		case isText(p.Kind):
			if strings.TrimSpace(p.Text) == "" { // empty, and refused by the API
				w.moveMark(parts, &p)
				continue
			}
			if m.Role == chat.RoleSystem {
				w.Degrade("system")
				p.Text = "<system>\n" + p.Text + "\n</system>"
			}
		case !w.fits(&p, m.Role == chat.RoleAssistant):
			w.DropPart(&p)
			w.moveMark(parts, &p)
			continue
		}
		parts = append(parts, p)
	}
	return parts
}

// moveMark moves the cache mark of a dropped part to the part before it, which ends at the same position.
func (w *writer) moveMark(before []chat.Part, p *chat.Part) {
	n := len(before)
	switch {
	case p.CacheControl == nil:
	case n == 0 || before[n-1].Kind == chat.PartThinking || before[n-1].Kind == chat.PartRedacted:
		w.Degrade("cache_control")
	case before[n-1].CacheControl == nil:
		before[n-1].CacheControl = p.CacheControl
	}
}

func isText(k chat.PartKind) bool { return k == chat.PartText || k == chat.PartRefusal }

// fits reports whether a turn may contain a part.
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

// keepsThinking reports whether thinking is sent: with its signature to models that verify it, as text without the signature to models that
// do not sign.
func (w *writer) keepsThinking(p *chat.Part) bool {
	switch w.opts.StripThinking {
	case StripNothing, StripUnsigned:
		return p.SignedBy() == chat.ClaudeThinking
	case StripSignatures:
		if p.Signature != "" && p.Text != "" {
			w.Degrade("thinking")
			p.Signature = ""
		}
		return p.Kind == chat.PartThinking && p.Text != "" && p.Signature == ""
	case StripAll:
	}
	return false
}

// assignCallIDs gives every call a unique id of the characters that the API accepts: some servers number the calls of each answer from
// zero. Results get the ids of their calls.
func assignCallIDs(ts []wire.Turn) {
	seen := map[string]int{}
	var names map[string][]string // of the unanswered calls in the previous turn, by the client's ids
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
				p.Tool.ID = uniqueID(seen, toolID(id))
				names[id] = append(names[id], p.Tool.ID)
			}
		}
	}
}

// uniqueID returns an unused id. seen holds the next suffix to try for each id.
func uniqueID(seen map[string]int, id string) string {
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

// toolID replaces the characters of an id that the API refuses.
func toolID(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, id)
}

// canThink reports whether thinking with a budget may be enabled. It cannot start in the middle of an assistant's turn: in a prefilled
// answer, or while the model uses tools in a turn that does not start with thinking.
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

// stopThinking drops the thinking of the current turn if thinking is off: the API refuses both together.
func (w *writer) stopThinking() {
	last := len(w.turns) - 1
	for i := last; i > 0 && len(w.turns[i].Results) > 0; i -= 2 {
		t := &w.turns[i-1]
		t.Parts = slices.DeleteFunc(t.Parts, func(p chat.Part) bool {
			thought := isThought(p.Kind)
			if thought {
				w.DropPart(&p)
			}
			return thought
		})
	}
}

func isThought(k chat.PartKind) bool { return k == chat.PartThinking || k == chat.PartRedacted }
