package wire

import (
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// HintKey is the member with a client's hints to the gateway: an object at the top level, a string on a block.
const HintKey = "bardo"

var hintKeys = jsonx.WordsOf(HintKey)

// maxFlags is the maximum number of flags of a system prompt that are kept; further ones are only removed.
const maxFlags = 1024

// RemoveHints marks the hints for removal, because providers must not see them: those at the top level, and those on messages, blocks and
// tools. It records the flags of the system prompt's blocks in r.Flags. The error is a fault: a flag is neither static nor volatile.
func RemoveHints(r *chat.Request) error {
	r.Edit.Delete(&r.Doc, HintKey)
	if !r.Doc.Stats.Keys.Meets(&hintKeys) {
		return nil
	}
	h := flagReader{r: r, opening: true}
	for i := range r.Doc.Members { // in document order, which is the cheapest for Edits
		m := &r.Doc.Members[i]
		v := r.Doc.Value(i)
		switch m.Key {
		case "tools":
			for _, e := range v.Each {
				removeHint(r, e)
			}
		case "system":
			h.blocks(flagPlace{key: m.Key, system: true}, v)
		case "systemInstruction", "system_instruction":
			h.blocks(flagPlace{key: m.Key, member: "parts", system: true}, v.Get("parts"))
		case "messages", "input":
			h.turns(m.Key, "content", v)
		case "contents":
			h.turns(m.Key, "parts", v)
		}
	}
	return h.err
}

// flagReader reads and removes the flags of messages and blocks.
type flagReader struct {
	r       *chat.Request
	opening bool // only system messages so far
	err     error
}

// flagPlace is the position of a flag: on a message, or on a block of its content.
type flagPlace struct {
	key, member string // messages, content
	turn        int
	system      bool
}

func (h *flagReader) turns(key, member string, v jsonx.Value) {
	for i, e := range v.Each {
		role := e.Get("role")
		h.opening = h.opening && (role.Equal("system") || role.Equal("developer"))
		at := flagPlace{key: key, turn: i, system: h.opening}
		h.r.VolatileEnd = false
		h.flag(at, -1, e)
		at.member = member
		h.blocks(at, e.Get(member))
	}
}

func (h *flagReader) blocks(at flagPlace, v jsonx.Value) {
	for j, block := range v.Each {
		h.flag(at, j, block)
		for _, inner := range block.Get("content").Each {
			h.flag(flagPlace{key: at.key, member: at.member, turn: at.turn}, j, inner)
		}
	}
}

// flag reads and removes the flag of a message or a block.
func (h *flagReader) flag(at flagPlace, part int, object jsonx.Value) {
	v := object.Get(HintKey)
	if !v.Exists() {
		return
	}
	removeHint(h.r, object)
	volatile := v.Equal("volatile")
	switch {
	case !volatile && !v.Equal("static"):
		if name := at.name(part); h.err == nil {
			h.err = Invalid(name, `%s must be "static" or "volatile"`, name)
		}
	case at.system && len(h.r.Flags) < maxFlags:
		h.r.Flags = append(h.r.Flags, chat.Flag{Turn: at.turn, Part: part, Volatile: volatile})
	case volatile:
		h.r.VolatileEnd = true
	}
}

// name returns the path of the flag of a block, or, for a negative part, of a message.
func (at flagPlace) name(part int) string {
	name := at.key
	if at.member == "" && part >= 0 { // a list of blocks
		return name + "[" + strconv.Itoa(part) + "]." + HintKey
	}
	if at.key != "systemInstruction" && at.key != "system_instruction" {
		name += "[" + strconv.Itoa(at.turn) + "]"
	}
	if part >= 0 {
		name += "." + at.member + "[" + strconv.Itoa(part) + "]"
	}
	return name + "." + HintKey
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

// pastComma returns the offset after the comma that follows i, or i if there is none.
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
