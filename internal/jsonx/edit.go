package jsonx

import (
	"cmp"
	"slices"
)

// Edits are pending changes of a Doc's bytes. All of them refer to offsets in the same unedited Doc. Bytes that no edit covers are copied unchanged.
// The zero value changes nothing. Not safe for concurrent writes; a Clone may be written independently.
type Edits struct {
	list  []edit // by start, without overlaps
	added []addition
}

// edit replaces a span of the Doc: a member's value, a nested span, or (remove) a whole member with its comma.
type edit struct {
	start, end int
	new        Raw
	member     int // index of the member whose value or whole is replaced; -1 for a nested span
	remove     bool
}

type addition struct {
	key string
	raw Raw
}

// Empty reports whether there is nothing to change.
func (e *Edits) Empty() bool { return len(e.list) == 0 && len(e.added) == 0 }

// Clone returns an independent copy; the new values' bytes are shared.
func (e *Edits) Clone() Edits {
	return Edits{list: slices.Clone(e.list), added: slices.Clone(e.added)}
}

// Set sets a top-level member's value in place, or appends the member. It replaces earlier edits of that member. raw must be valid JSON and is not
// copied.
func (e *Edits) Set(d *Doc, key string, raw Raw) {
	if i := d.Find(key); i >= 0 {
		e.whole(d, i, edit{start: d.Members[i].Start, end: d.Members[i].End, new: raw, member: i})
		return
	}
	for i := range e.added {
		if e.added[i].key == key {
			e.added[i].raw = raw
			return
		}
	}
	e.added = append(e.added, addition{key, raw})
}

// Delete removes a top-level member with one comma, if it exists.
func (e *Edits) Delete(d *Doc, key string) {
	if i := d.Find(key); i >= 0 {
		e.whole(d, i, edit{start: d.Members[i].KeyStart, end: d.Members[i].End, member: i, remove: true})
		return
	}
	e.added = slices.DeleteFunc(e.added, func(a addition) bool { return a.key == key })
}

// Replace replaces a span of the Doc, for example a nested Value at [At, At+len(Raw)). An empty span inserts. The span must be inside the Doc, and
// the caller must keep the result valid JSON. It drops earlier replacements that it overlaps. Inside a member that was Set or Deleted it has no
// effect, because that text is removed.
func (e *Edits) Replace(start, end int, raw Raw) {
	from, to := e.touched(start, end)
	if start > end || slices.ContainsFunc(e.list[from:to], func(o edit) bool { return o.member >= 0 && o.overlaps(start, end) }) {
		return
	}
	kept := slices.DeleteFunc(e.list[from:to], func(o edit) bool { return o.overlaps(start, end) })
	e.list = slices.Delete(e.list, from+len(kept), to)
	e.insert(edit{start: start, end: end, new: raw, member: -1})
}

// touched returns the part of the list that may overlap a span.
func (e *Edits) touched(start, end int) (from, to int) {
	to, _ = slices.BinarySearchFunc(e.list, end, func(o edit, end int) int { return cmp.Compare(o.start, end) })
	for from = to; from > 0; from-- {
		// An insertion may follow the edit that begins at the same offset; apart from that, the list is sorted by end, too.
		if o := &e.list[from-1]; o.end <= start && o.start < o.end {
			break
		}
	}
	return from, to
}

// whole replaces all edits inside a member by an edit of the whole member.
func (e *Edits) whole(d *Doc, i int, n edit) {
	from, to := d.Members[i].KeyStart, d.Members[i].End
	e.list = slices.DeleteFunc(e.list, func(o edit) bool { return from <= o.start && o.end <= to })
	e.insert(n)
}

func (e *Edits) insert(n edit) {
	at := len(e.list)
	for at > 0 && e.list[at-1].start > n.start {
		at--
	}
	e.list = slices.Insert(e.list, at, n)
}

func (o edit) overlaps(start, end int) bool { return o.start < end && start < o.end }

// Len returns the number of bytes that AppendTo appends.
func (e *Edits) Len(d *Doc) int {
	n := 0
	e.pieces(d, func(p []byte) { n += len(p) })
	return n
}

// AppendTo appends the edited document.
func (e *Edits) AppendTo(dst []byte, d *Doc) []byte {
	e.pieces(d, func(p []byte) { dst = append(dst, p...) })
	return dst
}

// pieces yields the edited document from left to right.
func (e *Edits) pieces(d *Doc, put func([]byte)) {
	kept := e.firstKept()
	tail := e.tail(d)
	at := 0
	copyTo := func(end int) {
		if end > at {
			put(d.Bytes[at:end])
			at = end
		}
	}
	added := false
	add := func() {
		if !added {
			copyTo(tail)
			e.additions(kept < len(d.Members), put)
			added = true
		}
	}
	for _, o := range e.list {
		if o.remove {
			o.start, o.end = removal(d, o.member, o.member > kept)
		}
		if o.start >= tail {
			add()
		}
		copyTo(o.start)
		put(o.new)
		at = max(at, o.end)
	}
	add()
	copyTo(len(d.Bytes))
}

// firstKept returns the index of the first member that is not removed; the number of members if all are.
func (e *Edits) firstKept() int {
	kept := 0
	for _, o := range e.list {
		if o.remove && o.member == kept {
			kept++
		}
	}
	return kept
}

// removal returns the span that is removed with member i: it includes the preceding comma if an earlier member is kept, else the following one.
func removal(d *Doc, i int, keptBefore bool) (start, end int) {
	m := d.Members[i]
	switch {
	case keptBefore:
		return d.Members[i-1].End, m.End
	case i+1 < len(d.Members):
		return m.KeyStart, d.Members[i+1].KeyStart
	}
	return m.KeyStart, m.End
}

// tail returns the offset of new members: after the last member, or after the opening brace.
func (e *Edits) tail(d *Doc) int {
	if n := len(d.Members); n > 0 {
		return d.Members[n-1].End
	}
	return skipSpace(d.Bytes, 0) + 1
}

func (e *Edits) additions(comma bool, put func([]byte)) {
	if len(e.added) == 0 {
		return
	}
	var scratch [64]byte
	for _, a := range e.added {
		key := scratch[:0]
		if comma {
			key = append(key, ',')
		}
		put(append(AppendString(key, a.key), ':'))
		put(a.raw)
		comma = true
	}
}
