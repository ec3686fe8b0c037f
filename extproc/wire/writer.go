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
	Refused  error    // a fault: content that had to be left out; nil for none
}

// Lose names what the format cannot say, in the client's own word. name is the canonical one.
func (w *Writer) Lose(name string) { w.Name(w.Conv.Word(name)) }

// Name names a loss, once.
func (w *Writer) Name(word string) { w.Degraded = Named(w.Degraded, word) }

// LosePart leaves a part out. A trace is named; content makes the request one that this format cannot say: see Refused.
func (w *Writer) LosePart(p *chat.Part) {
	if ClassOf(p) == Trace {
		w.Name(nameOf(w.Conv, p))
		return
	}
	if w.Refused == nil {
		w.Refused = unsupported(w.Conv, p, "", classes[p.Kind].what).Fault()
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
