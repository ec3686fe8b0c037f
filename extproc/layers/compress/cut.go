package compress

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/jsonx"
)

// cut is a range of turns that one summary replaces.
type cut struct{ from, to int }

// cut is the longest range of old turns that may be replaced as a whole (K-73). It begins after the last turn that must stay (a system message, the newest
// message of the user, anything other than text, such as an image), and ends where an answer of the model begins, before the last turns. Each call in it has its
// result in it, and each result its call.
func (p *plan) cut() (c cut, ok bool) {
	t, closed := p.t, closedAt(p.t)
	newest := lastUserTurn(t)
	for c.to = lastTurns(t, len(t.Turns)-1, p.keep); c.to > 0 && (!beginsAnswer(t, c.to) || !closed[c.to]); {
		c.to--
	}
	for i := range c.to {
		turn := &t.Turns[i]
		if turn.Role == chat.RoleSystem || turn.Opaque || !t.Removable(i) || i == newest {
			c.from = i + 1
		}
	}
	for c.from < c.to && !closed[c.from] {
		c.from++
	}
	return c, c.from < c.to
}

// lastUserTurn is the last turn with a text of the user; none if there is none.
func lastUserTurn(t *transcript.Transcript) int {
	for i := range slices.Backward(t.Turns) {
		for k := t.Turns[i].First; k < t.Turns[i].End; k++ {
			if t.Texts[k].Kind == transcript.User {
				return i
			}
		}
	}
	return none
}

// closedAt reports for each turn whether all calls before it have their results before it, and all results before it their calls.
func closedAt(t *transcript.Transcript) []bool {
	out, open, broken := make([]bool, len(t.Turns)), map[string]int{}, false
	for i := range t.Turns {
		out[i] = len(open) == 0 && !broken
		for _, c := range t.Turns[i].Calls {
			open[cmp.Or(c.ID, c.Name)]++
		}
		for _, id := range t.Turns[i].Answers {
			switch open[id] {
			case 0:
				broken = true
			case 1:
				delete(open, id)
			default:
				open[id]--
			}
		}
	}
	return out
}

// summaryMessage is the summary as a message of the user, in the client's format. It has a cache mark if one of the turns that it replaces had one, so that the
// number of the client's marks does not grow.
func (p *plan) summaryMessage() jsonx.Raw {
	text := jsonx.AppendString(nil, p.note.text)
	if p.x.Request.Dialect == chat.Gemini {
		return jsonx.Raw(`{"role":"user","parts":[{"text":` + string(text) + `}]}`)
	}
	marked := false
	for i := p.note.from; i < p.note.to; i++ {
		marked = marked || p.t.Turns[i].Marked
	}
	if marked {
		return jsonx.Raw(`{"role":"user","content":[{"type":"text","text":` + string(text) + `,"cache_control":{"type":"ephemeral"}}]}`)
	}
	return jsonx.Raw(`{"role":"user","content":` + string(text) + `}`)
}
