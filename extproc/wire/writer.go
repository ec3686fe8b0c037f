package wire

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Writer is what the writers of all formats do alike when they write a conversation of another dialect: JSON behind JSON, in a fixed
// order, and names for what their format cannot say. Not safe for concurrent use.
type Writer struct {
	Dst      []byte
	Conv     *chat.Conversation
	Degraded []string // what was lost, in the client's own words, each once
	InArray  bool     // since OpenArray, an element was written before
}

// Lose names what the format cannot say, in the client's own word. name is the canonical one.
func (w *Writer) Lose(name string) { w.Name(w.Conv.Word(name)) }

// Name names a loss, once.
func (w *Writer) Name(word string) { w.Degraded = Named(w.Degraded, word) }

// LosePart names a part that is left out.
func (w *Writer) LosePart(p *chat.Part) {
	switch p.Kind {
	case chat.PartText, chat.PartRefusal:
		w.Lose("content")
	case chat.PartToolUse:
		w.Lose("tool_use")
	case chat.PartToolResult:
		w.Lose("tool_result")
	case chat.PartImage:
		w.Lose("image")
	case chat.PartDocument:
		w.Lose("document")
	case chat.PartThinking, chat.PartRedacted:
		w.Lose("thinking")
	case chat.PartOther:
		w.Name(p.Name)
	}
}

// Raw writes text as it is.
func (w *Writer) Raw(s string) { w.Dst = append(w.Dst, s...) }

// JSON writes a value as it came.
func (w *Writer) JSON(r jsonx.Raw) { w.Dst = append(w.Dst, r...) }

// Str writes a string in quotes.
func (w *Writer) Str(s string) { w.Dst = jsonx.AppendString(w.Dst, s) }

// Integer writes a number.
func (w *Writer) Integer(n int) { w.Dst = strconv.AppendInt(w.Dst, int64(n), 10) }

// Key writes the key of a member that is not its object's first. The name is written as it is.
func (w *Writer) Key(name string) {
	w.Dst = append(w.Dst, `,"`...)
	w.Dst = append(w.Dst, name...)
	w.Dst = append(w.Dst, `":`...)
}

// OpenArray begins an array.
func (w *Writer) OpenArray() { w.Raw("["); w.InArray = false }

// Element puts the comma between elements of an array whose elements write no arrays themselves in between.
func (w *Writer) Element() {
	if w.InArray {
		w.Dst = append(w.Dst, ',')
	}
	w.InArray = true
}
