package wire

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// HintKey is the member by which a client talks to the gateway: an object at the top level, a string on a block.
const HintKey = "bardo"

var hintKeys = jsonx.WordsOf(HintKey)

// RemoveHints marks for removal what providers must not see: the hints at the top level, and those on messages, their blocks and tools.
func RemoveHints(r *chat.Request) {
	r.Edit.Delete(&r.Doc, HintKey)
	if !r.Doc.Stats.Keys.Meets(&hintKeys) {
		return
	}
	for i := range r.Doc.Members { // in document order, which is the cheapest for Edits
		m := &r.Doc.Members[i]
		if m.Key != "system" && m.Key != "messages" && m.Key != "input" && m.Key != "tools" {
			continue
		}
		v := jsonx.Value{Raw: r.Doc.Bytes[m.Start:m.End], At: m.Start}
		for _, e := range v.Each {
			removeHint(r, e)
			for _, block := range e.Get("content").Each {
				removeHint(r, block)
				for _, inner := range block.Get("content").Each {
					removeHint(r, inner)
				}
			}
		}
	}
}

func removeHint(r *chat.Request, object jsonx.Value) {
	CutMember(&r.Edit, &r.Doc, object, HintKey)
}

// CutMember removes a member of an object inside a document, with the comma before it, or after it if it is the first.
func CutMember(e *jsonx.Edits, d *jsonx.Doc, object jsonx.Value, name string) {
	CutMembers(e, d, object, name)
}

// CutMembers removes several members of an object, which may be adjacent. It reports whether it removed any.
func CutMembers(e *jsonx.Edits, d *jsonx.Doc, object jsonx.Value, names ...string) (cut bool) {
	start, end, first := object.At+1, 0, true // end of the last member that stays; end of the last one to remove
	flush := func() {
		switch {
		case end == 0:
			return
		case first:
			end = pastComma(d.Bytes, end)
		}
		e.Replace(start, end, nil)
		end = 0
	}
	for key, v := range object.Members {
		after := v.At + len(v.Raw)
		if slices.Contains(names, string(key)) {
			end, cut = after, true
			continue
		}
		flush()
		start, first = after, false
	}
	flush()
	return cut
}

// pastComma is the offset after the comma that follows i, or i if none does.
func pastComma(b []byte, i int) int {
	for j := i; j < len(b); j++ {
		switch b[j] {
		case ' ', '\t', '\r', '\n':
		case ',':
			return j + 1
		default:
			return i
		}
	}
	return i
}
