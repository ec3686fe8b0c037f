package jsonx

import "bytes"

// Strings yields the strings in v, at any depth, in order, as in: for s, isName := range v.Strings. isName is set for a member's name. Like the other
// methods it requires validated text.
func (v Value) Strings(yield func(s Value, isName bool) bool) {
	for s, isName := range v.Scalars {
		if s.Kind() == String && !yield(s, isName) {
			return
		}
	}
}

// Scalars yields the strings and numbers in v, like Strings.
func (v Value) Scalars(yield func(s Value, isName bool) bool) {
	b, c := v.Raw, v.cursor()
	for i := 0; i < len(b); {
		next := bytes.IndexAny(b[i:], `"-0123456789`)
		if next < 0 {
			return
		}
		i += next
		end := max(c.skipValue(b, i), i+1)
		after := skipSpace(b, end)
		isName := b[i] == '"' && after < len(b) && b[after] == ':'
		if !yield(v.part(i, end), isName) {
			return
		}
		i = end
	}
}

// RemoveElements removes elements of an array in the document, with their commas; the rest is unchanged. Edits inside a removed element are dropped.
func (e *Edits) RemoveElements(array Value, remove func(i int) bool) {
	kept, end := false, array.At+1 // end of the previous element
	first := -1                    // start of leading removed elements
	for i, v := range array.Each {
		switch start := v.At; {
		case !remove(i):
			if first >= 0 {
				e.Replace(first, start, nil)
				first = -1
			}
			kept = true
		case kept:
			e.Replace(end, start+len(v.Raw), nil)
		case first < 0:
			first = start
		}
		end = v.At + len(v.Raw)
	}
	if first >= 0 {
		e.Replace(first, end, nil)
	}
}
