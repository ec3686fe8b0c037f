package openai

import (
	"slices"
	"unicode/utf8"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
)

// placedPart is a part of a history's message with its position there.
type placedPart struct {
	chat.Part
	at chatcompletion.Spot
}

// interleave inserts thoughts into the other parts of their message, each at its position: see chatcompletion.Spot. A thought inside a text
// splits the text.
func interleave(thoughts []placedPart, rest []chat.Part) []chat.Part {
	parts := make([]chat.Part, 0, len(thoughts)+len(rest))
	var here chatcompletion.Spot
	for _, p := range rest {
		for len(thoughts) > 0 && precedesEnd(thoughts[0].at, here, &p) {
			parts = splitText(parts, &p, &here, thoughts[0].at)
			parts = append(parts, thoughts[0].Part)
			thoughts = thoughts[1:]
		}
		here = after(here, &p)
		parts = append(parts, p)
	}
	for i := range thoughts {
		at := len(parts)
		if thoughts[i].SignedBy() == chat.ClaudeThinking && at > 0 { // Claude's API refuses a turn that ends with thinking
			at--
		}
		parts = slices.Insert(parts, at, thoughts[i].Part)
	}
	return parts
}

// precedesEnd reports whether at is before the end of a part that starts at here.
func precedesEnd(at, here chatcompletion.Spot, part *chat.Part) bool {
	switch part.Kind { //nolint:exhaustive // other parts come after the text
	case chat.PartText:
		return at.Calls <= here.Calls && at.Text < here.Text+len(part.Text)
	case chat.PartToolUse:
		return at.Calls <= here.Calls
	}
	return at.Calls == 0 && at.Text <= here.Text
}

// after returns the position after a part that starts at here.
func after(here chatcompletion.Spot, part *chat.Part) chatcompletion.Spot {
	switch part.Kind { //nolint:exhaustive // other parts do not move the position
	case chat.PartText:
		here.Text += len(part.Text)
	case chat.PartToolUse:
		here.Calls++
	}
	return here
}

// splitText appends the first piece of p, a text that starts at here, if at is inside it. p becomes the rest, and here its position.
func splitText(parts []chat.Part, p *chat.Part, here *chatcompletion.Spot, at chatcompletion.Spot) []chat.Part {
	n := at.Text - here.Text
	for p.Kind == chat.PartText && n > 0 && n < len(p.Text) && !utf8.RuneStart(p.Text[n]) {
		n--
	}
	if p.Kind != chat.PartText || n <= 0 || n >= len(p.Text) {
		return parts
	}
	head := *p
	head.Text, head.CacheControl = p.Text[:n], nil
	p.Text = p.Text[n:]
	here.Text += n
	return append(parts, head)
}
