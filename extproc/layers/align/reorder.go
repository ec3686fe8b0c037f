package align

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/jsonx"
)

// arranged is a content of the system prompt with its blocks in order.
type arranged struct {
	raw   jsonx.Raw // of the message or member around the content
	class class     // of the content as a whole
	parts []class   // of its blocks, in their new order; nil for a string
	moved bool
}

// reorder sorts the blocks of the system prompt within each message, and the messages whose blocks have one class: static first, volatile last. Equal ones keep
// their order. It reports whether anything moved.
func reorder(x *pipeline.Exchange) (moved bool, err error) {
	r := x.Request
	if len(r.Flags) == 0 {
		return false, nil
	}
	t, err := x.Transcript() // its document is without flags
	if err != nil {
		return false, err
	}
	slots := slices.DeleteFunc(contentsOf(r.Dialect, t.Doc()), func(c content) bool { return c.turn < 0 })
	f := flagsOf(r)
	all, classes := make([]arranged, len(slots)), make([]class, len(slots))
	for i, c := range slots {
		all[i] = arrange(c, f)
		classes[i] = all[i].class
		moved = moved || all[i].moved
	}
	order, swapped := byClass(classes)
	if !moved && !swapped {
		return false, nil
	}
	var now []chat.Flag
	for k, slot := range slots {
		a := &all[order[k]]
		t.Replace(slot.outer, a.raw)
		now = append(now, a.flags(slot.turn)...)
	}
	if err := x.Change(t); err != nil {
		return false, err
	}
	x.Request.Flags = now
	return true, nil
}

// arrange sorts the blocks of a content.
func arrange(c content, f flags) (a arranged) {
	a.raw, a.class = c.outer.Raw, f.at(c.turn, -1)
	var classes []class
	for i := range c.value.Each {
		classes = append(classes, f.at(c.turn, i))
	}
	if len(classes) == 0 {
		return a
	}
	order, moved := byClass(classes)
	if _, whole := f[[2]int{c.turn, -1}]; !whole && classes[order[0]] == classes[order[len(order)-1]] {
		a.class = classes[0]
	}
	for _, i := range order {
		a.parts = append(a.parts, classes[i])
	}
	if a.moved = moved; moved {
		at := c.value.At - c.outer.At
		a.raw = slices.Concat(c.outer.Raw[:at], permuted(c.value, order), c.outer.Raw[at+len(c.value.Raw):])
	}
	return a
}

// flags are the flags of an arranged content at its new place.
func (a *arranged) flags(turn int) (out []chat.Flag) {
	for i, c := range a.parts {
		if c != unflagged {
			out = append(out, chat.Flag{Turn: turn, Part: i, Volatile: c == volatile})
		}
	}
	if a.class != unflagged && len(a.parts) == 0 {
		out = append(out, chat.Flag{Turn: turn, Part: -1, Volatile: a.class == volatile})
	}
	return out
}

// byClass is the stable order of classes, and whether it differs from the present one.
func byClass(classes []class) (order []int, moved bool) {
	for i := range classes {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(classes[a] - classes[b]) })
	return order, !slices.IsSorted(order)
}

// permuted is an array with its elements in another order; the bytes between them stay.
func permuted(array jsonx.Value, order []int) jsonx.Raw {
	var elements []jsonx.Value
	for _, e := range array.Each {
		elements = append(elements, e)
	}
	out := make(jsonx.Raw, 0, len(array.Raw))
	end := 0
	for k, e := range elements {
		at := e.At - array.At
		out = append(append(out, array.Raw[end:at]...), elements[order[k]].Raw...)
		end = at + len(e.Raw)
	}
	return append(out, array.Raw[end:]...)
}

// toolList is the definitions of tools.
type toolList struct {
	array jsonx.Value
	names []string // nil if they cannot be sorted
	order uint64   // hash of the definitions in their order
	set   uint64   // hash of the definitions in any order
}

// toolsOf reads the tools. names is nil in Gemini's format, and if a tool has no name or another one's.
func toolsOf(doc *jsonx.Doc) (l toolList) {
	l.array = doc.Get("tools")
	seen := map[string]bool{}
	sortable := true
	for _, e := range l.array.Each {
		name, ok := e.Get("name").Str()
		if inner := e.Get("function").Get("name"); inner.Exists() {
			name, ok = inner.Str()
		}
		sortable = sortable && ok && name != "" && !seen[name]
		seen[name] = true
		l.names = append(l.names, name)
		h := hashOf(e.Raw)
		l.order = l.order*31 + h
		l.set += h
	}
	if !sortable {
		l.names = nil
	}
	return l
}

// sortTools sorts the tools by name; false if they are sorted, or cannot be.
func sortTools(x *pipeline.Exchange, l *toolList) (bool, error) {
	if len(l.names) < 2 || slices.IsSorted(l.names) {
		return false, nil
	}
	order := make([]int, len(l.names))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(l.names[a], l.names[b]) })
	t, err := x.Transcript()
	if err != nil {
		return false, err
	}
	tools := t.Doc().Get("tools")
	t.Replace(tools, permuted(tools, order))
	return true, x.Change(t)
}
