package openai

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// A message of this format has one text and a list of calls, and says nothing of their order among its thinking. Claude thinks between
// them, and takes each block back at its own place only (K-14). So a detail of a block that does not stand first has an id, which tells
// how much stands before it: so many bytes of the text, and so many calls. Clients give details back as they came, and OpenAI's SDKs
// join the ids of a block's pieces, so that only the first has one.

const behind = "bardo-behind-"

// spot is how much of an answer stands before something.
type spot struct{ text, calls int }

// appendMember appends the id of what stands at the place, with a comma before it; nothing at the beginning.
func (p spot) appendMember(dst []byte) []byte {
	if p == (spot{}) {
		return dst
	}
	dst = strconv.AppendInt(append(dst, `,"id":"`+behind...), int64(p.text), 10)
	return append(strconv.AppendInt(append(dst, '-'), int64(p.calls), 10), '"')
}

// readSpot reads the id of a detail. One of another maker says nothing of a place: it stands first.
func readSpot(v jsonx.Value) (p spot) {
	id, _ := v.Str()
	rest, ours := strings.CutPrefix(id, behind)
	text, calls, ok := strings.Cut(rest, "-")
	if !ours || !ok {
		return spot{}
	}
	n, err := strconv.Atoi(text)
	m, err2 := strconv.Atoi(calls)
	if err != nil || err2 != nil || n < 0 || m < 0 {
		return spot{}
	}
	return spot{n, m}
}

// spots tell for each choice how much of its answer was written. The zero value has seen nothing.
type spots []spot

func (ps *spots) of(choice int) *spot {
	choice = max(0, min(choice, maxChoices-1))
	for len(*ps) <= choice {
		*ps = append(*ps, spot{})
	}
	return &(*ps)[choice]
}

// note counts what an event adds.
func (ps *spots) note(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the rest has no place among thoughts
	case chat.Text:
		ps.of(ev.Choice).text += len(ev.Text)
	case chat.ToolStart:
		ps.of(ev.Choice).calls++
	}
}

// placed is a thought of a history and its place.
type placed struct {
	chat.Part
	at spot
}

// weave puts thoughts into the rest of their message, each at its place.
func weave(thoughts []placed, rest []chat.Part) []chat.Part {
	parts := make([]chat.Part, 0, len(thoughts)+len(rest))
	var here spot
	for _, p := range rest {
		for len(thoughts) > 0 && thoughts[0].at.before(here, &p) {
			parts = split(parts, &p, &here, thoughts[0].at)
			parts = append(parts, thoughts[0].Part)
			thoughts = thoughts[1:]
		}
		here = here.past(&p)
		parts = append(parts, p)
	}
	for i := range thoughts {
		at := len(parts)
		if thoughts[i].SignedBy() == chat.ClaudeThinking && at > 0 { // whose API takes no turn that ends with a thought
			at--
		}
		parts = slices.Insert(parts, at, thoughts[i].Part)
	}
	return parts
}

// before reports whether a place is before a part that stands here, or inside it.
func (p spot) before(here spot, part *chat.Part) bool {
	switch part.Kind { //nolint:exhaustive // the rest stands behind the text
	case chat.PartText:
		return p.calls <= here.calls && p.text < here.text+len(part.Text)
	case chat.PartToolUse:
		return p.calls <= here.calls
	}
	return p.calls == 0 && p.text <= here.text
}

// past is the place behind a part that stands here.
func (p spot) past(part *chat.Part) spot {
	switch part.Kind { //nolint:exhaustive // the rest has no place
	case chat.PartText:
		p.text += len(part.Text)
	case chat.PartToolUse:
		p.calls++
	}
	return p
}

// split appends what of a text stands before a place inside it.
func split(parts []chat.Part, p *chat.Part, here *spot, at spot) []chat.Part {
	n := at.text - here.text
	for p.Kind == chat.PartText && n > 0 && n < len(p.Text) && !utf8.RuneStart(p.Text[n]) {
		n--
	}
	if p.Kind != chat.PartText || n <= 0 || n >= len(p.Text) {
		return parts
	}
	head := *p
	head.Text, head.CacheControl = p.Text[:n], nil
	p.Text = p.Text[n:]
	here.text += n
	return append(parts, head)
}
