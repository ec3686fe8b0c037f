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
	budget int // bytes that may still be added
	stop   string
}

// block is one text of an answer, which is collected from pieces.
type block struct {
	choice, index int
	kind          string
	tool          string
	text          bytes.Buffer
	omitted       int
}

// kinds are the kinds of texts in entries, by event.
var kinds = map[chat.EventKind]string{chat.Text: "assistant", chat.Thought: "thinking", chat.Refusal: "refusal", chat.ToolArgs: "arguments"} //nolint:exhaustive // the others have none

// record adds an event. The Start of another attempt discards the previous one.
func (a *answer) record(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the others have no text
	case chat.Start:
		*a = answer{budget: maxAnswer}
	case chat.ToolStart:
		a.blocks = append(a.blocks, &block{choice: ev.Choice, index: ev.Index, kind: kinds[chat.ToolArgs], tool: ev.Tool.Name})
	case chat.Text, chat.Thought, chat.Refusal, chat.ToolArgs:
		a.add(a.block(ev), ev.Text)
	case chat.Stop:
		a.stop = string(ev.Reason)
	}
}

// block is the block of an event, which is added if it is missing.
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

// add appends a piece to a text. A text that becomes too long is omitted as a whole.
func (a *answer) add(b *block, piece []byte) {
	if b.omitted > 0 || len(piece) > a.budget {
		a.budget += b.text.Len()
		b.omitted += b.text.Len() + len(piece)
		b.text = bytes.Buffer{}
		return
	}
	a.budget -= len(piece)
	b.text.Write(piece)
}

// trimUnfinished removes from each choice's last text what follows its last whole sentence or line: it may be a part of a value, which could not be masked.
func (a *answer) trimUnfinished() {
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

// wholeSentences is the length in bytes of a text up to the end of its last whole line or sentence. A full stop after a short word does not count: it may be
// that of an abbreviation within an address or a name ("St.", "Dr.").
func wholeSentences(text []byte) int {
	for at := len(text) - 1; at > 0; at-- {
		switch {
		case text[at] == '\n':
			return at + 1
		case text[at] == ' ' && bytes.IndexByte([]byte(".!?"), text[at-1]) >= 0 && lastWord(text[:at-1]) >= minLastWord:
			return at + 1
		}
	}
	return 0
}

// minLastWord is the number of letters from which a word can end a sentence.
const minLastWord = 5

// lastWord is the number of letters at the end of a text.
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
