package wire

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Writer is the common part of the writers of all formats, which write a conversation of another dialect as JSON in a fixed order. Not safe
// for concurrent use.
type Writer struct {
	Dst      []byte
	Conv     *chat.Conversation
	Degraded []string // what the format cannot express, by the client's names, each once
	InArray  bool     // an element was written since OpenArray
	Refused  error    // a fault for content that the format cannot express; nil for none
}

// Degrade records something that the format cannot express. name is the canonical name; the client's own name is recorded.
func (w *Writer) Degrade(name string) { w.DegradeAs(w.Conv.Word(name)) }

// DegradeAs records a degraded name unchanged, once.
func (w *Writer) DegradeAs(word string) { w.Degraded = AppendDegraded(w.Degraded, word) }

// DropPart omits a part. A trace is named as degraded; for content, Refused is set.
func (w *Writer) DropPart(p *chat.Part) {
	if ClassOf(p) == Trace {
		w.DegradeAs(nameOf(w.Conv, p))
		return
	}
	if w.Refused == nil {
		w.Refused = unsupported(w.Conv, p, "", classes[p.Kind].what).Fault()
	}
}

// Raw writes text unchanged.
func (w *Writer) Raw(s string) { w.Dst = append(w.Dst, s...) }

// JSON writes a value unchanged.
func (w *Writer) JSON(r jsonx.Raw) { w.Dst = append(w.Dst, r...) }

// Str writes a quoted string.
func (w *Writer) Str(s string) { w.Dst = jsonx.AppendString(w.Dst, s) }

// Integer writes a number.
func (w *Writer) Integer(n int) { w.Dst = strconv.AppendInt(w.Dst, int64(n), 10) }

// Boolean writes true or false.
func (w *Writer) Boolean(on bool) { w.Dst = strconv.AppendBool(w.Dst, on) }

// Number writes a member whose value is the text of a number; nothing if the text is empty.
func (w *Writer) Number(key, text string) {
	if text != "" {
		w.Key(key)
		w.Raw(text)
	}
}

// Key writes a comma and the key of a member, without escaping the name.
func (w *Writer) Key(name string) {
	w.Dst = append(w.Dst, `,"`...)
	w.Dst = append(w.Dst, name...)
	w.Dst = append(w.Dst, `":`...)
}

// OpenArray begins an array.
func (w *Writer) OpenArray() { w.Raw("["); w.InArray = false }

// Element writes the comma between elements of an array. Elements must not contain arrays that are written with Element.
func (w *Writer) Element() {
	if w.InArray {
		w.Dst = append(w.Dst, ',')
	}
	w.InArray = true
}
