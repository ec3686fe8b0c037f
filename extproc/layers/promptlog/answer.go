package promptlog

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/prompts"
)

// answer collects the texts of an answer. The zero value is empty.
type answer struct {
	blocks []*block
	left   int // bytes that may still be kept
	stop   string
}

// block is one text of an answer, as it comes in pieces.
type block struct {
	choice, index int
	kind          string
	tool          string
	text          bytes.Buffer
	omitted       int
}

// kinds are what the events with text are called.
var kinds = map[chat.EventKind]string{chat.Text: "assistant", chat.Thought: "thinking", chat.Refusal: "refusal", chat.ToolArgs: "arguments"} //nolint:exhaustive // the others have none

// take keeps an event. Another attempt begins anew.
func (a *answer) take(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the others have no text that is kept
	case chat.Start:
		*a = answer{left: maxAnswer}
	case chat.ToolStart:
		a.blocks = append(a.blocks, &block{choice: ev.Choice, index: ev.Index, kind: kinds[chat.ToolArgs], tool: ev.Tool.Name})
	case chat.Text, chat.Thought, chat.Refusal, chat.ToolArgs:
		a.add(a.block(ev), ev.Text)
	case chat.Stop:
		a.stop = string(ev.Reason)
	}
}

// block is that of an event.
func (a *answer) block(ev *chat.Event) *block {
	kind := kinds[ev.Kind]
	for _, b := range slices.Backward(a.blocks) {
		if b.choice == ev.Choice && b.index == ev.Index && b.kind == kind {
			return b
		}
	}
	b := &block{choice: ev.Choice, index: ev.Index, kind: kind}
	a.blocks = append(a.blocks, b)
	return b
}

// add keeps a piece of a text, unless the text has become too long: then none of it is kept.
func (a *answer) add(b *block, piece []byte) {
	if b.omitted > 0 || len(piece) > a.left {
		a.left += b.text.Len()
		b.omitted += b.text.Len() + len(piece)
		b.text = bytes.Buffer{}
		return
	}
	a.left -= len(piece)
	b.text.Write(piece)
}

// breakOff leaves out what may be half a value, which could not be masked: of each choice's last text, what stands behind its last whole sentence or line.
func (a *answer) breakOff() {
	last := map[int]*block{}
	for _, b := range a.blocks {
		last[b.choice] = b
	}
	for _, b := range last {
		whole := wholeSentences(b.text.Bytes())
		b.omitted += b.text.Len() - whole
		b.text.Truncate(whole)
	}
}

// wholeSentences is how long the lines and sentences of a text are that have an end. A full stop behind a short word may be that of an abbreviation within an
// address or a name ("St.", "Dr."), and ends nothing.
func wholeSentences(text []byte) int {
	for at := len(text) - 1; at > 0; at-- {
		switch {
		case text[at] == '\n':
			return at + 1
		case text[at] == ' ' && bytes.IndexByte([]byte(".!?"), text[at-1]) >= 0 && lastWord(text[:at-1]) >= shortestLast:
			return at + 1
		}
	}
	return 0
}

// shortestLast is how many letters the last word of a sentence has at least.
const shortestLast = 5

// lastWord is how many letters a text ends with.
func lastWord(text []byte) int {
	return utf8.RuneCount(text[len(bytes.TrimRightFunc(text, unicode.IsLetter)):])
}

// texts are those of the answer in their order.
func (a *answer) texts() []prompts.Text {
	var out []prompts.Text
	for _, b := range a.blocks {
		out = append(out, prompts.Text{Turn: b.choice, Kind: b.kind, Tool: b.tool, Text: b.text.String(), Omitted: b.omitted})
	}
	return out
}
